#pragma once
#include <compare>

#include "tegula/matmul_config.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// GEMMs. For user-defined epilogues see tegula/kernels/fused_matmul.h.
namespace tegula::kernels {

struct MatmulOptions {
  /// Multiplies f32 operands on tensor cores, which ignore the low 13 mantissa bits (tf32);
  /// otherwise by FMA.
  bool tf32 = false;
  /// For 8-bit float operands: adds the accumulator of each k-iteration (bk) in f32 (DeepGEMM's
  /// promotion), as Hopper's tensor cores keep about 14 of its bits. Not for other types.
  bool fp32_promotion = false;
  friend auto operator<=>(const MatmulOptions&, const MatmulOptions&) = default;
};

/// C = A B. A [m, k], B [k, n], C [m, n], optionally with a leading batch dimension; any strides
/// and extents; k = 0 gives zeros. Operands that tensor cores cannot read are repacked first in
/// each call, unless k is small: those with rows that are not 16-byte aligned and, for 8-bit types
/// and tf32, those whose k is not contiguous. With repacking or split-K, a call holds a lock of the
/// stream until its launches are queued, because calls share the stream's memory.
///
/// | A and B (alike) | C | accumulator |
/// |---|---|---|
/// | bf16, f16 | the same type or f32 | f32 |
/// | f32 | f32 | f32 |
/// | f8e4m3, f8e5m2 | bf16, f16 or f32 | f32 |
/// | i8, u8 | i32 or f32 | i32 |
///
/// Throws CompileError for unsupported shapes (T1650) or types (T1651).
void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulOptions& options = {}, Loc at = std::source_location::current());
void matmul(const Tensor& A, const Tensor& B, const Tensor& C, const MatmulOptions& options = {},
            Loc at = std::source_location::current());
/// With a given configuration: bm is 64, 128, 192 or 256 unless swapped, bn a multiple of 8 from 8
/// to 256, bk a power of two from 16 to 256. Throws CompileError (T1662) for an invalid cluster.
void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulConfig& config, const MatmulOptions& options = {},
            Loc at = std::source_location::current());

}  // namespace tegula::kernels
