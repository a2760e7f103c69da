#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Gated activations, forward and backward. Memory-bound: each element is read and written once.
namespace tegula::kernels {

/// Activation of the gate.
enum class GateActivation : std::uint8_t {
  silu,       ///< x sigmoid(x): SwiGLU (Shazeer 2020)
  gelu,       ///< x (1 + erf(x / sqrt 2)) / 2: GEGLU
  gelu_tanh,  ///< tanh approximation of GELU (PyTorch's approximate="tanh")
};

/// y = activation(gate) * up, computed in f32. All tensors are bf16, f16 or f32 [rows, columns]
/// with any row stride: gate and up may be halves of one tensor. Throws CompileError (T1661, T1662)
/// for invalid arguments.
void gated_activation(const Stream& stream, GateActivation activation, const Tensor& gate,
                      const Tensor& up, const Tensor& y, Loc at = std::source_location::current());

/// Computes the gradients of gate and up from dy, recomputing the activation.
void gated_activation_backward(const Stream& stream, GateActivation activation, const Tensor& gate,
                               const Tensor& up, const Tensor& dy, const Tensor& dgate,
                               const Tensor& dup, Loc at = std::source_location::current());

}  // namespace tegula::kernels
