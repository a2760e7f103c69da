#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Quantisation to 8-bit floats. Memory-bound: each element is read and written once, except that
/// rows of more than 32768 columns that share a scale are read twice.
namespace tegula::kernels {

/// Elements that share a scale.
enum class ScaleBlock : std::uint8_t {
  row,           ///< a row: scales [rows]
  block_1x128,   ///< 128 columns of a row: scales [rows, ceil(columns / 128)]
  block_128x128  ///< 128 rows of 128 columns: scales [ceil(rows / 128), ceil(columns / 128)]
};

/// Options of quantise_fp8.
struct QuantiseOptions {
  ScaleBlock block = ScaleBlock::row;  ///< elements that share a scale
  /// Scales are rounded up to powers of two, so that multiplying by them is exact.
  bool power_of_two_scales = false;
};

/// q = x / scale, rounded to nearest even, with scale = max|x| of the block / the largest number of
/// q's type (448 for f8e4m3, 57344 for f8e5m2), but at least 2^-126, and 1 for a block of zeros; x
/// is about q * scale. x is bf16, f16 or f32 [rows, columns], q is f8e4m3 or f8e5m2 of that shape,
/// scales are f32. NaN stays NaN and is ignored for the scale; in a block with an infinity, finite
/// numbers become 0. Throws CompileError (T1661, T1662) for invalid arguments.
void quantise_fp8(const Stream& stream, const Tensor& x, const Tensor& q, const Tensor& scales,
                  const QuantiseOptions& options = {}, Loc at = std::source_location::current());

}  // namespace tegula::kernels
