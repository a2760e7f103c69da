#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

namespace tegula::kernels {

/// y = scale * H x for each row, with the Hadamard matrix H of entries 1 and -1 in Sylvester's
/// order: the fast Walsh-Hadamard transform, in f32. x and y are bf16, f16 or f32 [rows, columns],
/// columns a power of two from 2 to 32768. With scale = 1 / sqrt(columns) it is its own inverse and
/// gradient. Memory-bound: each element is read and written once. Throws CompileError (T1661,
/// T1662) for invalid arguments.
void hadamard(const Stream& stream, const Tensor& x, const Tensor& y, float scale,
              Loc at = std::source_location::current());

}  // namespace tegula::kernels
