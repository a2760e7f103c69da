#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

namespace tegula::kernels {

/// z = x + y; f32 vectors of equal length. Throws CompileError (T1662) for invalid arguments.
void vector_add(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& z,
                Loc at = std::source_location::current());

}  // namespace tegula::kernels
