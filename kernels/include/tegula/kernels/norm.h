#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Norms of rows, forward and backward. Memory-bound: every element is read and written once, for
/// rows of up to 32768 columns forward and 16384 backward; longer ones are read twice.
namespace tegula {

/// Further tensors of a norm's forward pass. One that is not `defined()` is left out.
struct NormExtras {
  Tensor residual = {};  ///< [rows, columns] of the type of x: added to x before the norm
  Tensor sum = {};       ///< [rows, columns]: receives x + residual, rounded; the norm is of that
  Tensor mean = {};      ///< f32 [rows]: receives the mean of each row, of layer norm alone
  Tensor rstd = {};      ///< f32 [rows]: receives 1 / sqrt(variance + epsilon), of RMS norm
                         ///< 1 / sqrt(mean square + epsilon)
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight of each row (Zhang and Sennrich 2019), computed in
/// f32. x and y are bf16, f16 or f32 [rows, columns], weight [columns] of the same type or left
/// out. Throws CompileError for invalid arguments.
void rms_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& y,
              float epsilon = 1e-6f, const NormExtras& extras = {},
              Loc at = std::source_location::current());

/// y = (x - mean(x)) / sqrt(var(x) + epsilon) * weight + bias of each row (Ba et al. 2016), with
/// the variance of the row as it is (divided by the number of columns). Types and shapes as those
/// of rms_norm; bias is of weight's shape, and either may be left out.
void layer_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Tensor& y, float epsilon = 1e-5f, const NormExtras& extras = {},
                Loc at = std::source_location::current());

/// Tensors of the forward pass that the backward pass reads.
struct NormTape {
  Tensor x;            ///< the normalised rows: x, or the stored sum with the residual
  Tensor weight = {};  ///< [columns], or none
  Tensor mean = {};    ///< f32 [rows], of layer norm alone
  Tensor rstd;         ///< f32 [rows]
};
/// Gradients that the backward pass gives. Gradients of weight and bias may be left out.
struct NormGradients {
  Tensor x;            ///< [rows, columns] of the type of x; also that of the residual
  Tensor weight = {};  ///< [columns], bf16, f16 or f32
  Tensor bias =
      {};  ///< [columns], of layer norm alone, of the type of weight's gradient if both are given
};

/// Gradients of rms_norm from dy, that of y. `dsum`, if given, is the gradient of the stored sum,
/// and is added to that of x. Gradients of weight and bias are sums over all rows in f32, in
/// an order that depends on the shape and the model of GPU alone: each call gives the same bits.
void rms_norm_backward(const Stream& stream, const NormTape& tape, const Tensor& dy,
                       const NormGradients& gradients, const Tensor& dsum = {},
                       Loc at = std::source_location::current());
/// Likewise of layer_norm.
void layer_norm_backward(const Stream& stream, const NormTape& tape, const Tensor& dy,
                         const NormGradients& gradients, const Tensor& dsum = {},
                         Loc at = std::source_location::current());

}  // namespace tegula
