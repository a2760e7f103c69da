#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Sums of the segments of an array, or of the rows of a matrix.
namespace tegula {

/// y[s] = x[offsets[s]] + .. + x[offsets[s + 1] - 1]: x of bf16, f16 or f32 [n] or [n, columns], y
/// f32 [segments] or [segments, columns], offsets i32 [segments + 1], ascending, from 0 to n at
/// most. An empty segment sums to 0; one whose offsets fall is empty. Computed in f32, with the
/// same bits in every run. A segment of rows is the work of one program; one of many elements that
/// of all. Throws CompileError for what does not fit.
void device_segment_sum(const Stream& stream, const Tensor& x, const Tensor& offsets,
                        const Tensor& y, Loc at = std::source_location::current());

}  // namespace tegula
