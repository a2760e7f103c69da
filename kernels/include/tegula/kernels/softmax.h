#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Softmax of rows of any length, forward and backward. Memory-bound: every element is read and
/// written once; rows of more than 131072 columns, without clusters 32768, are read twice.
namespace tegula {

/// y = softmax of each row of x, computed in f32; bf16, f16 or f32 [rows, columns]. A row without a
/// number above -inf, or with inf or NaN, is NaN. Throws CompileError for invalid arguments.
void softmax(const Stream& stream, const Tensor& x, const Tensor& y,
             Loc at = std::source_location::current());

/// dx = y (dy - sum(y dy)) of each row: the gradient of x from that of y = softmax(x).
void softmax_backward(const Stream& stream, const Tensor& y, const Tensor& dy, const Tensor& dx,
                      Loc at = std::source_location::current());

}  // namespace tegula
