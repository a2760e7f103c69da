#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Sums over segments of an array, or of the rows of a matrix.
namespace tegula::kernels {

/// y[s] = x[offsets[s]] + .. + x[offsets[s + 1] - 1]: x is bf16, f16 or f32 [n] or [n, columns], y
/// f32 [segments] or [segments, columns], offsets i32 [segments + 1], ascending from 0 to at most
/// n. Empty segments, and those with decreasing offsets, sum to 0. Computed in f32, with the same
/// bits in every run. One program adds a segment of rows; all programs share a long segment of
/// elements. Throws CompileError (T1661, T1662) for invalid
/// arguments.
void device_segment_sum(const Stream& stream, const Tensor& x, const Tensor& offsets,
                        const Tensor& y, Loc at = std::source_location::current());

}  // namespace tegula::kernels
