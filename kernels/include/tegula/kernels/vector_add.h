#pragma once
#include "tegula/stream.h"
#include "tegula/tensor.h"

namespace tegula {

/// z = x + y; f32 vectors of one length.
void vector_add(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& z);

}  // namespace tegula
