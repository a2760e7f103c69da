#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Stream compaction of arrays of any length.
namespace tegula::kernels {

/// Copies the elements of x [n] for which `keep` (i1 [n]) is true, in order, to the start of y [n],
/// and their number to `count` (i32 [1]). The rest of y is unchanged. Elements are bf16, f16, f32,
/// i32 or i64; n < 2^31. Reads `keep` twice, x once. Throws CompileError (T1661, T1662) for
/// invalid arguments.
void device_select(const Stream& stream, const Tensor& x, const Tensor& keep, const Tensor& y,
                   const Tensor& count, Loc at = std::source_location::current());

}  // namespace tegula::kernels
