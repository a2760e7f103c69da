#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/order.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Top-k of rows of any length.
namespace tegula::kernels {

/// Stores the first k elements of each sorted row of x and their indices: x is bf16, f16, f32 or
/// i32 [rows, n], values [rows, k] has the type of x, indices are i32 [rows, k]; best first; 1 <= k
/// <= n, k <= 4096, n < 2^31. Ties are resolved by the smaller index, and NaN follows all numbers;
/// -0 equals +0, and either may be returned as the other. Several rows of up to 1024 elements share
/// a program; a long row is divided among many programs, whose candidates are then sorted again.
/// Throws CompileError (T1661 to T1663) for invalid arguments.
void device_topk(const Stream& stream, const Tensor& x, const Tensor& values, const Tensor& indices,
                 Direction direction = Direction::descending,
                 Loc at = std::source_location::current());

}  // namespace tegula::kernels
