#pragma once
#include <string>

#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Matrix products.
namespace tegula {

/// How a product is cut: tiles of bm x bn, steps of bk along k, and k divided among `splits` CTAs
/// whose partial sums (f32) a second kernel adds.
struct MatmulConfig {
  int bm = 128, bn = 256, bk = 64;
  int splits = 1;
  std::string str() const;
  friend bool operator==(const MatmulConfig&, const MatmulConfig&) = default;
};

/// The configuration with the least estimated time on a GPU of `sms` multiprocessors, for 16-bit
/// operands: waves of tiles, each bound by tensor cores or by bytes from L2 (research/gemm.md).
MatmulConfig matmul_config(std::int64_t m, std::int64_t n, std::int64_t k, int sms = 132);

/// C = A B, accumulated in f32. A [m, k], B [k, n], C [m, n]; bf16, f16 (tensor cores) or f32
/// (FMA), any strides, any extents. Throws CompileError for shapes that do not fit.
void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C);
void matmul(const Tensor& A, const Tensor& B, const Tensor& C);
/// With a given configuration of bf16 or f16 operands; bm of 64, 128 or 256, bn of 32 to 256 in
/// steps of 32, bk of 32, 64 or 128. Throws CompileError for others.
void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulConfig& config);

}  // namespace tegula
