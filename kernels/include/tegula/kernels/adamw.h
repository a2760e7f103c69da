#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

namespace tegula::kernels {

/// A parameter and its optimizer state. All tensors are contiguous and have the same shape.
struct AdamWTensors {
  Tensor weight;         ///< f32 or bf16, updated
  Tensor gradient;       ///< f32 or the type of `weight`
  Tensor first_moment;   ///< f32, updated; zeros before the first step
  Tensor second_moment;  ///< f32, updated; zeros before the first step
};

/// Hyperparameters of one step; they may change from step to step.
struct AdamWOptions {
  float learning_rate = 1e-3f;         ///< lr of the formula
  float beta1 = 0.9f, beta2 = 0.999f;  ///< decay rates of the moments
  float epsilon = 1e-8f;               ///< added to the root of the second moment
  float weight_decay = 1e-2f;          ///< decay of the formula, decoupled from the gradient
  float gradient_scale = 1;            ///< gradients are multiplied by this factor first
  /// With a seed, bf16 weights are rounded stochastically with Philox random words of the seed, the
  /// step and the element's index in the list of tensors: equal calls give equal bits, and updates
  /// below half an ulp are kept on average, without an f32 copy of the weights. Without a seed they
  /// are rounded to nearest even. f32 weights are not rounded.
  std::optional<std::uint64_t> rounding_seed = std::nullopt;
};

/// AdamW (Loshchilov and Hutter 2019) for any number of tensors, with one launch per step.
/// Memory-bound: each element is read and written once.
///
///     m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
///     w = w (1 - lr decay) - lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// All arithmetic is f32; bf16 weights are rounded last, see AdamWOptions::rounding_seed. Tensors
/// aligned to 16 bytes are read and written by 16-byte accesses, others element by element. Copies
/// share the state.
class AdamW {
 public:
  /// Keeps the tensors and copies a table of their locations to the device. Throws CompileError
  /// (T1662) if types, shapes or devices differ: all weights have one type, all gradients too.
  explicit AdamW(std::span<const AdamWTensors> tensors, Loc at = std::source_location::current());

  /// Performs step number `t`, counted from 1.
  void step(const Stream& stream, std::int64_t t, const AdamWOptions& options = {},
            Loc at = std::source_location::current()) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace tegula::kernels
