#pragma once
// Scales of 8-bit floats from the largest magnitude of a block.
#include "tegula/tegula.h"

namespace tegula::kernels {

/// A scale per block, and the factor that elements are multiplied by.
struct Fp8Scale {
  Tile value, inverse;
};
template <class Q>
Fp8Scale scale_of(const Tile& largest, bool is_power_of_two) {
  constexpr float kLargest = dtype_of<Q> == DType::f8e4m3 ? 448 : 57344;
  // For subnormal values the inverse would be inf, and 0 * inf would be NaN.
  const Tile bounded = max(largest, kLargest * 0x1p-126f);
  const Tile plain = where(largest == 0.0f, 1.0f, bounded * (1 / kLargest));
  if (!is_power_of_two) return {plain, where(largest == 0.0f, 1.0f, kLargest / bounded)};
  // Adding all mantissa bits carries into the exponent unless the mantissa is 0: rounds up to a
  // power of two.
  const Tile up = (bitcast<u32>(plain) + 0x7fffffu) & 0x7f800000u;
  const Tile value = bitcast<f32>(up);
  return {value, 1.0f / value};
}

/// Returns the largest magnitudes, 0 for rows outside the tensor, so that only the elements
/// themselves may be absent.
inline Tile largest_of(const Tile& v, Axis axis) {
  return fill_absent(max(max(abs(v), axis), 0.0f), 0);
}

}  // namespace tegula::kernels
