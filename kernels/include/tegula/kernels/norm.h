#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Row norms, forward and backward. Memory-bound: each element is read and written once, for rows
/// of up to 32768 columns forward and 16384 backward; longer rows are read twice.
namespace tegula::kernels {

/// Optional tensors of the forward pass of a norm, ignored if not `defined()`.
struct NormExtras {
  Tensor residual = {};  ///< [rows, columns], of x's type: added to x before the norm
  Tensor sum = {};       ///< [rows, columns]: receives x + residual, rounded; input of the norm
  Tensor mean = {};      ///< f32 [rows]: receives the mean of each row; layer norm only
  Tensor rstd = {};      ///< f32 [rows]: receives 1 / sqrt(variance + epsilon); for RMS norm 1 /
                         ///< sqrt(mean square + epsilon)
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight for each row (Zhang and Sennrich 2019), computed in
/// f32. x and y are bf16, f16 or f32 [rows, columns], weight is [columns] of the same type or
/// undefined. Throws CompileError for invalid types (T1661) or shapes (T1662), as all norms do.
///
///     rms_norm(stream, x, weight, y);
///     rms_norm(stream, x, weight, y, 1e-5f, {.residual = r, .sum = s, .rstd = rstd});
void rms_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& y,
              float epsilon = 1e-6f, const NormExtras& extras = {},
              Loc at = std::source_location::current());

/// y = (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias for each row (Ba et al. 2016), with
/// the biased variance (divided by the number of columns). Types and shapes as in rms_norm; bias
/// has the shape of weight, and both are optional.
void layer_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Tensor& y, float epsilon = 1e-5f, const NormExtras& extras = {},
                Loc at = std::source_location::current());

/// Tensors of the forward pass that the backward pass reads.
struct NormTape {
  Tensor x;            ///< input of the norm: x, or the stored sum with the residual
  Tensor weight = {};  ///< [columns]; optional
  Tensor mean = {};    ///< f32 [rows]; layer norm only
  Tensor rstd;         ///< f32 [rows]
};
/// Outputs of the backward pass. Gradients of weight and bias are optional.
struct NormGradients {
  Tensor x;            ///< [rows, columns], of x's type; also the gradient of the residual
  Tensor weight = {};  ///< [columns], bf16, f16 or f32
  Tensor bias =
      {};  ///< [columns], layer norm only; same type as weight's gradient if both are given
};

/// Computes the gradients of rms_norm from dy, the gradient of y. `dsum`, if given, is the gradient
/// of the stored sum and is added to that of x. Gradients of weight and bias are f32 sums over all
/// rows, in a fixed order for a given shape and GPU model: results are bitwise reproducible.
void rms_norm_backward(const Stream& stream, const NormTape& tape, const Tensor& dy,
                       const NormGradients& gradients, const Tensor& dsum = {},
                       Loc at = std::source_location::current());
/// Computes the gradients of layer_norm in the same way.
void layer_norm_backward(const Stream& stream, const NormTape& tape, const Tensor& dy,
                         const NormGradients& gradients, const Tensor& dsum = {},
                         Loc at = std::source_location::current());

}  // namespace tegula::kernels
