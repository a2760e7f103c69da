#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/order.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// The best k elements of rows of any length.
namespace tegula {

/// The k first elements of each sorted row of x and where they stand: x of bf16, f16, f32 or i32
/// [rows, n], values [rows, k] like x, indices i32 [rows, k], best first, 1 <= k <= n, k <= 4096, n
/// below 2^31. Ties go to the smaller index, NaN stand behind all numbers; -0 equals +0, and either
/// may come back as either. Rows of up to 1024 elements share a program; the parts of a long one
/// are sorted by many programs, then what they found. Throws CompileError for what does not
/// fit.
void device_topk(const Stream& stream, const Tensor& x, const Tensor& values, const Tensor& indices,
                 Direction direction = Direction::descending,
                 Loc at = std::source_location::current());

}  // namespace tegula
