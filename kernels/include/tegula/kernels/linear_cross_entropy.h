#pragma once
#include <source_location>

#include "tegula/kernels/cross_entropy.h"

namespace tegula {

/// Gradients that linear_cross_entropy gives.
struct LinearCrossEntropyGradients {
  Tensor dloss;   ///< f32 [tokens]: the gradient of each loss, such as 1 / tokens of a mean
  Tensor x;       ///< [tokens, features] of the type of x
  Tensor weight;  ///< f32 [classes, features]: the gradient is added to what is there
};

/// Cross entropy of logits = x weight^T, which are never all in memory: `logits`, [n, classes] of
/// the type of x, holds those of n tokens at a time. x is bf16, f16 or f32 [tokens, features],
/// weight [classes, features] of that type, labels, loss, lse and options as of cross_entropy.
/// Gives the gradients too if they are defined: the logits of some tokens become their gradients in
/// place, so that nothing is computed twice. Throws CompileError for invalid arguments.
void linear_cross_entropy(const Stream& stream, const Tensor& x, const Tensor& weight,
                          const Tensor& labels, const Tensor& logits, const Tensor& loss,
                          const Tensor& lse, const LinearCrossEntropyGradients& gradients = {},
                          const CrossEntropyOptions& options = {},
                          Loc at = std::source_location::current());

}  // namespace tegula
