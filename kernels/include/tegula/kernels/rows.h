#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Kernels that work on each row of a matrix by itself, and elementwise ones. All are memory-bound:
/// every element is read and written once.
namespace tegula {

/// z = x + y; f32 vectors of one length.
void vector_add(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& z);

/// y = softmax of each row of x, computed in f32; bf16, f16 or f32 [rows, columns], at most 32768
/// columns.
void softmax(const Stream& stream, const Tensor& x, const Tensor& y,
             Loc at = std::source_location::current());

/// y = x / sqrt(mean(x^2) + epsilon) * weight of each row (Zhang and Sennrich 2019), computed in
/// f32; weight [columns].
void rms_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& y,
              float epsilon = 1e-6f, Loc at = std::source_location::current());

}  // namespace tegula
