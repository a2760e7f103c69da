#pragma once
#include <compare>

#include "tegula/matmul_config.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// GEMMs. With an epilogue of one's own: tegula/kernels/fused_matmul.h.
namespace tegula {

struct MatmulOptions {
  /// Operands of f32 are multiplied by tensor cores, which leave out their last 13 bits (tf32);
  /// else FMA.
  bool tf32 = false;
  /// For operands of 8-bit floats: adds the accumulator of each k-iteration (bk) in f32 (DeepGEMM's
  /// promotion), as Hopper's tensor cores keep about 14 bits of it. Not for other types.
  bool fp32_promotion = false;
  friend auto operator<=>(const MatmulOptions&, const MatmulOptions&) = default;
};

/// C = A B. A [m, k], B [k, n], C [m, n], or all with a batch dimension in front; any strides, any
/// extents; k = 0 gives zeros. Operands that tensor cores cannot read are repacked first, at
/// every call, unless k is small: rows that do not begin at multiples of 16 bytes, and of 8 bits
/// (or tf32) those whose k is not contiguous. For repacking and split-K, calls of
/// one stream come from one thread at a time: they share its memory.
///
/// | A and B (alike) | C | accumulator |
/// |---|---|---|
/// | bf16, f16 | the same type or f32 | f32 |
/// | f32 | f32 | f32 |
/// | f8e4m3, f8e5m2 | bf16, f16 or f32 | f32 |
/// | i8, u8 | i32 or f32 | i32 |
///
/// Throws CompileError for shapes or types that do not fit.
void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulOptions& options = {}, Loc at = std::source_location::current());
void matmul(const Tensor& A, const Tensor& B, const Tensor& C, const MatmulOptions& options = {},
            Loc at = std::source_location::current());
/// With a given configuration: bm of 64, 128, 192 or 256 unless swapped, bn of 8 to 256 in steps of
/// 8, bk of 16 to 256 in powers of two. Throws CompileError for a cluster that is none.
void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulConfig& config, const MatmulOptions& options = {},
            Loc at = std::source_location::current());

}  // namespace tegula
