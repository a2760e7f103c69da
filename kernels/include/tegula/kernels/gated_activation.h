#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Gated activations, forward and backward. Memory-bound: every element is read and written once.
namespace tegula {

/// The activation of the gate.
enum class GateActivation : std::uint8_t {
  silu,       ///< x sigmoid(x): SwiGLU (Shazeer 2020)
  gelu,       ///< x (1 + erf(x / sqrt 2)) / 2: GEGLU
  gelu_tanh,  ///< GELU's definition by tanh (PyTorch's approximate="tanh")
};

/// y = activation(gate) * up, computed in f32. All are bf16, f16 or f32 [rows, columns], with rows
/// of any stride: gate and up may be halves of one tensor. Throws CompileError for invalid
/// arguments.
void gated_activation(const Stream& stream, GateActivation activation, const Tensor& gate,
                      const Tensor& up, const Tensor& y, Loc at = std::source_location::current());

/// Gradients of gate and up from dy, that of y; the activation is computed again.
void gated_activation_backward(const Stream& stream, GateActivation activation, const Tensor& gate,
                               const Tensor& up, const Tensor& dy, const Tensor& dgate,
                               const Tensor& dup, Loc at = std::source_location::current());

}  // namespace tegula
