#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Stream compaction of arrays of any length.
namespace tegula {

/// The elements of x [n] at which `keep` (i1 [n]) is true, in their order, at the front of y [n],
/// and their number in `count` (i32 [1]). The rest of y stays as it is. Elements of bf16, f16, f32,
/// i32 or i64; n below 2^31. Reads `keep` twice, x once. Throws CompileError for what does not fit.
void device_select(const Stream& stream, const Tensor& x, const Tensor& keep, const Tensor& y,
                   const Tensor& count, Loc at = std::source_location::current());

}  // namespace tegula
