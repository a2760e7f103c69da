#pragma once
// Scales of 8-bit floats by the largest magnitude of what shares them.
#include "tegula/tegula.h"

namespace tegula {

/// A scale for each largest magnitude, and what elements are multiplied by.
struct Fp8Scale {
  Tile value, inverse;
};
template <class Q>
Fp8Scale scale_of(const Tile& largest, bool is_power_of_two) {
  constexpr float kLargest = dtype_of<Q> == DType::f8e4m3 ? 448 : 57344;
  // Below the normal numbers the inverse would be an infinity, and a zero beside it NaN.
  const Tile bounded = max(largest, kLargest * 0x1p-126f);
  const Tile plain = where(largest == 0.0f, 1.0f, bounded * (1 / kLargest));
  if (!is_power_of_two) return {plain, where(largest == 0.0f, 1.0f, kLargest / bounded)};
  // Adds all but one of the mantissa's ulps, so that whatever has a mantissa goes up to the next
  // exponent.
  const Tile up = (bitcast<u32>(plain) + 0x7fffffu) & 0x7f800000u;
  const Tile value = bitcast<f32>(up);
  return {value, 1.0f / value};
}

/// Largest magnitudes, 0 for rows outside the tensor: nothing but the elements themselves is
/// absent.
inline Tile largest_of(const Tile& v, Axis axis) {
  return fill_absent(max(max(abs(v), axis), 0.0f), 0);
}

}  // namespace tegula
