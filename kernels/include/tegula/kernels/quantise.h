#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Quantisation to 8-bit floats. Memory-bound: every element is read and written once, of rows of
/// more than 32768 columns that share a scale read twice.
namespace tegula {

/// Elements that share a scale.
enum class ScaleBlock : std::uint8_t {
  row,           ///< a row: scales [rows]
  block_1x128,   ///< 128 columns of a row: scales [rows, ceil(columns / 128)]
  block_128x128  ///< 128 rows of 128 columns: scales [ceil(rows / 128), ceil(columns / 128)]
};

struct QuantiseOptions {
  ScaleBlock block = ScaleBlock::row;
  /// Scales are rounded up to powers of two, so that they multiply without rounding.
  bool power_of_two_scales = false;
};

/// q = x / scale, rounded to nearest even, with scale = max|x| of the block / the largest number of
/// q's type (448 of f8e4m3, 57344 of f8e5m2), 1 of a block of zeros, else 2^-126 or more: x is
/// about q * scale. x is bf16, f16 or f32 [rows, columns], q f8e4m3 or f8e5m2 of that shape, scales
/// f32. NaN stays NaN and does not count for the scale; beside an infinity numbers become 0. Throws
/// CompileError for invalid arguments.
void quantise_fp8(const Stream& stream, const Tensor& x, const Tensor& q, const Tensor& scales,
                  const QuantiseOptions& options = {}, Loc at = std::source_location::current());

}  // namespace tegula
