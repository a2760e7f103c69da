// Cube root, reciprocal square root of doubles, and the length of a vector of two.
#include <cmath>

#include "dsl/elementary/composed.h"
#include "dsl/elementary/of_doubles.h"
#include "dsl/elementary/parts.h"
#include "tegula/elementary.h"

namespace tegula {
namespace dsl::elementary {
namespace {

/// Computes 1 / cbrt(a) by third-order steps (two for f32, three for f64) from a guess that is
/// derived from the bits of a. Then one Newton step computes the root itself; its residual is
/// computed with extra precision.
Tile cbrt_of(const Tile& x) {
  const Format f = format_of(x);
  const bool wide = is_wide(x);
  const int lift = wide ? 54 : 24;  // a multiple of 3
  const Tile size = abs(x), tiny = size < f.smallest_normal();
  const Tile a = where(tiny, size * std::ldexp(1.0, lift), size);
  Tile y = from_bits((wide ? 0x553f09fc40000000 : 0x54a2fa8c) - bits_of(a) / 3, f);
  for (int i = 0; i < (wide ? 3 : 2); ++i) {
    const Tile h = fma(-(a * y), y * y, 1.0);
    y = fma(y * h, fma(h, 2.0 / 9, 1.0 / 3), y);
  }
  const Tile r = a * y * y, square = r * r, square_low = fma(r, r, -square);
  const Tile residual = fma(-square, r, a) - square_low * r;
  const Tile root = fma(residual, y * y * (1.0 / 3), r);
  const Tile lowered = where(tiny, root * std::ldexp(1.0, -lift / 3), root);
  return where((size > 0.0) && (size < inf), with_sign(lowered, x), x);
}

/// Computes sqrt(x^2 + y^2). Large and small numbers are scaled so that no square overflows and no
/// significant one underflows.
Tile hypot_of(const Tile& x, const Tile& y) {
  const Tile a = abs(x), b = abs(y), large = max(a, b), small = min(a, b);
  const bool wide = is_wide(x);
  const Tile is_huge = large > (wide ? 0x1p500 : 0x1p60),
             is_tiny = large < (wide ? 0x1p-400 : 0x1p-40);
  const double down = wide ? 0x1p-600 : 0x1p-80, up = wide ? 0x1p700 : 0x1p100;
  const Tile scale = where(is_huge, down, where(is_tiny, up, cast(1.0, large.dtype())));
  const Tile back = where(is_huge, 1 / down, where(is_tiny, 1 / up, cast(1.0, large.dtype())));
  const Tile u = large * scale, v = small * scale, length = sqrt(fma(u, u, v * v)) * back;
  return where(large == inf, inf, where((x != x) || (y != y), nan, length));
}

}  // namespace

Tile rsqrt_of(const Tile& x) { return 1.0 / sqrt(x); }

}  // namespace dsl::elementary

namespace elementary = dsl::elementary;

Tile cbrt(const Arg& x) { return dsl::composed("cbrt", x, elementary::cbrt_of); }
Tile hypot(const Arg& x, const Arg& y) {
  return dsl::composed("hypot", x, y, elementary::hypot_of);
}

}  // namespace tegula
