#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Softmax of rows of any length, forward and backward. Memory-bound: each element is read and
/// written once; rows of more than 131072 columns (32768 without clusters) are read twice.
namespace tegula::kernels {

/// y = softmax of each row of x, computed in f32; bf16, f16 or f32 [rows, columns]. A row without
/// numbers above -inf, or with inf or NaN, gives NaN. Throws CompileError (T1661, T1662) for
/// invalid arguments.
void softmax(const Stream& stream, const Tensor& x, const Tensor& y,
             Loc at = std::source_location::current());

/// dx = y (dy - sum(y dy)) for each row: gradient of x from dy, the gradient of y = softmax(x).
void softmax_backward(const Stream& stream, const Tensor& y, const Tensor& dy, const Tensor& dx,
                      Loc at = std::source_location::current());

}  // namespace tegula::kernels
