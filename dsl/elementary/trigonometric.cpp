// Sine, cosine, tangent, also of multiples of pi, and their inverses.
#include <numbers>

#include "dsl/elementary/coefficients.h"
#include "dsl/elementary/composed.h"
#include "dsl/elementary/of_doubles.h"
#include "dsl/elementary/parts.h"
#include "tegula/elementary.h"

namespace tegula {
namespace dsl::elementary {
namespace {

/// x = quarter pi / 2 + rest, |rest| <= pi / 4, by Cody and Waite's reduction in fused
/// multiplications with pi / 2 in three parts.
Reduced without_quarters(const Tile& x) {
  const bool wide = is_wide(x);
  const Tile n = round(x * (2 * std::numbers::inv_pi));
  Tile r = fma(n, wide ? -0x1.921fb54442d18p+0 : -0x1.921fb6p+0, x);
  r = fma(n, wide ? -0x1.1a62633145c07p-54 : 0x1.777a5cp-25, r);
  r = fma(n, wide ? 0x1.f1976b7ed8fbcp-110 : 0x1.ee59dap-50, r);
  return {r, cast(n, format_of(x).bits)};
}

SineCosine sincos_of(const Tile& x) {
  const auto [r, quarter] = without_quarters(x);
  const Tile square = r * r;
  const Tile sine = fma(r * square, polynomial(square, kSin32, kSin64), r);
  const Tile cosine = fma(square, polynomial(square, kCos32, kCos64), 1.0);
  return turned(sine, cosine, quarter);
}

Tile tan_of(const Tile& x) {
  const auto [sine, cosine] = sincos_of(x);
  return sine / cosine;
}
Tile sin_pi_of(const Tile& x) { return sincos_pi(x).sine; }
Tile cos_pi_of(const Tile& x) { return sincos_pi(x).cosine; }
Tile tan_pi_of(const Tile& x) {
  const auto [sine, cosine] = sincos_pi(x);
  return sine / cosine;
}

/// Return pi / 2 - x and pi - x. The constant is the sum of two numbers, for additional precision.
Tile from_half_pi(const Tile& x) {
  const bool wide = is_wide(x);
  const double low = wide ? 0x1.1a62633145c07p-54 : -0x1.777a5cp-25;
  return (wide ? std::numbers::pi / 2 : 0x1.921fb6p+0) - (x - low);
}
Tile from_pi(const Tile& x) {
  const bool wide = is_wide(x);
  const double low = wide ? 0x1.1a62633145c07p-53 : -0x1.777a5cp-24;
  return (wide ? std::numbers::pi : 0x1.921fb6p+1) - (x - low);
}

/// asin(|x|) up to 1/2; above 1/2 the s with asin(|x|) = pi / 2 - 2 s; NaN above 1.
struct ArcSine {
  Tile is_large, part;
};
ArcSine arc_sine(const Tile& size) {
  const Tile is_large = size > 0.5;
  const Tile square = where(is_large, (1.0 - size) * 0.5, size * size);
  const Tile root = where(is_large, sqrt(square), size);
  return {is_large, fma(root * square, polynomial(square, kAsin32, kAsin64), root)};
}

Tile asin_of(const Tile& x) {
  const auto [is_large, part] = arc_sine(abs(x));
  return with_sign(where(is_large, from_half_pi(part + part), part), x);
}

Tile acos_of(const Tile& x) {
  const auto [is_large, part] = arc_sine(abs(x));
  const Tile twice = part + part;
  const Tile large = where(x < 0.0, from_pi(twice), twice);
  return where(is_large, large, from_half_pi(with_sign(part, x)));
}

Tile atan_up_to_1(const Tile& x) {
  const Tile square = x * x;
  return fma(x * square, polynomial(square, kAtan32, kAtan64), x);
}

Tile atan_of(const Tile& x) {
  const Tile size = abs(x), is_large = size > 1.0;
  const Tile part = atan_up_to_1(where(is_large, 1.0 / size, size));
  return with_sign(where(is_large, from_half_pi(part), part), x);
}

Tile atan2_of(const Tile& y, const Tile& x) {
  const Tile height = abs(y), width = abs(x), is_steep = height > width;
  const Tile large = max(height, width), small = min(height, width);
  const Tile ratio =
      where(large == 0.0, 0.0, where((large == inf) && (small == inf), 1.0, small / large));
  const Tile part = atan_up_to_1(ratio), first = where(is_steep, from_half_pi(part), part);
  const Tile angle = where(bits_of(x) < 0, from_pi(first), first);
  return where((x != x) || (y != y), nan, with_sign(angle, y));
}

}  // namespace

Tile sin_of(const Tile& x) { return sincos_of(x).sine; }
Tile cos_of(const Tile& x) { return sincos_of(x).cosine; }

}  // namespace dsl::elementary

namespace elementary = dsl::elementary;

Tile tan(const Arg& x) { return dsl::composed("tan", x, elementary::tan_of); }
Tile sin_pi(const Arg& x) { return dsl::composed("sin_pi", x, elementary::sin_pi_of); }
Tile cos_pi(const Arg& x) { return dsl::composed("cos_pi", x, elementary::cos_pi_of); }
Tile tan_pi(const Arg& x) { return dsl::composed("tan_pi", x, elementary::tan_pi_of); }
Tile asin(const Arg& x) { return dsl::composed("asin", x, elementary::asin_of); }
Tile acos(const Arg& x) { return dsl::composed("acos", x, elementary::acos_of); }
Tile atan(const Arg& x) { return dsl::composed("atan", x, elementary::atan_of); }
Tile atan2(const Arg& y, const Arg& x) {
  return dsl::composed("atan2", y, x, elementary::atan2_of);
}

}  // namespace tegula
