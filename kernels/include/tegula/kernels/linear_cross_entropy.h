#pragma once
#include <source_location>

#include "tegula/kernels/cross_entropy.h"

namespace tegula::kernels {

/// Gradient tensors of linear_cross_entropy.
struct LinearCrossEntropyGradients {
  Tensor dloss;   ///< f32 [tokens]: gradient of each loss, such as 1 / tokens for a mean
  Tensor x;       ///< [tokens, features], of the type of x
  Tensor weight;  ///< f32 [classes, features]: the gradient is added to its contents
};

/// Cross entropy of logits = x weight^T, without materializing all logits: `logits`, [n, classes]
/// of the type of x, holds those of n tokens at a time. x is bf16, f16 or f32 [tokens, features],
/// weight [classes, features] of the same type; labels, loss, lse and options as in cross_entropy.
/// Gradients are computed if they are defined: the logits of n tokens are replaced by their
/// gradients in place, so nothing is computed twice. Throws CompileError (T1661, T1662) for
/// invalid arguments.
void linear_cross_entropy(const Stream& stream, const Tensor& x, const Tensor& weight,
                          const Tensor& labels, const Tensor& logits, const Tensor& loss,
                          const Tensor& lse, const LinearCrossEntropyGradients& gradients = {},
                          const CrossEntropyOptions& options = {},
                          Loc at = std::source_location::current());

}  // namespace tegula::kernels
