#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Cross entropy of logits and labels, forward and backward, for vocabularies of any size.
/// Memory-bound: the forward pass reads each logit once, the backward pass reads and writes it
/// once.
namespace tegula::kernels {

/// Options of cross_entropy, for both passes.
struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< rows with this label have a loss and a gradient of 0
  /// In [0, 1): share of the weight that is spread evenly over all classes (Szegedy et al. 2016).
  float label_smoothing = 0;
  /// Weight of the square of the log-sum-exp in the loss (z-loss; Chowdhery et al. 2022).
  float z_loss = 0;
};

/// loss = lse - (1 - s) logit of the label - s mean of the logits + z lse^2 of each row, with lse =
/// log(sum(exp(logits))), s the label smoothing and z the z-loss weight, in f32. logits are bf16,
/// f16 or f32 [rows, classes], labels i32 or i64 [rows], loss and lse f32 [rows]. Labels outside
/// [0, classes), except ignore_index, give NaN. Throws CompileError (T1661, T1662) for invalid
/// arguments.
void cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& labels,
                   const Tensor& loss, const Tensor& lse, const CrossEntropyOptions& options = {},
                   Loc at = std::source_location::current());

/// Computes the gradient of the logits from dloss (f32 [rows]), the gradient of the losses, and the
/// lse of the forward pass. `dlogits` has the type and shape of `logits`, and may alias it. Rows
/// whose loss is NaN because of an invalid label have a gradient of NaN.
void cross_entropy_backward(const Stream& stream, const Tensor& logits, const Tensor& labels,
                            const Tensor& lse, const Tensor& dloss, const Tensor& dlogits,
                            const CrossEntropyOptions& options = {},
                            Loc at = std::source_location::current());

}  // namespace tegula::kernels
