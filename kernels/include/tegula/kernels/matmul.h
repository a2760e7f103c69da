#pragma once
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Matrix products.
namespace tegula {

/// C = A B, accumulated in f32. A [m, k], B [k, n], C [m, n]; bf16, f16 (tensor cores) or f32
/// (FMA), any strides, any extents. Throws CompileError for shapes that do not fit.
void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C);
void matmul(const Tensor& A, const Tensor& B, const Tensor& C);

}  // namespace tegula
