#include "dsl/elementary/parts.h"

#include <cfloat>
#include <cmath>
#include <numbers>

#include "dsl/elementary/coefficients.h"
#include "tegula/rounding.h"

namespace tegula::dsl::elementary {

double Format::smallest_normal() const { return type == DType::f64 ? DBL_MIN : FLT_MIN; }

Format format_of(const Tile& x) {
  if (is_wide(x)) return {DType::f64, DType::i64, DType::u64, 64, 52, 1023};
  return {DType::f32, DType::i32, DType::u32, 32, 23, 127};
}

Tile polynomial(const Tile& x, std::span<const double> coefficients) {
  Tile sum = fma(x, coefficients[0], coefficients[1]);
  for (double c : coefficients.subspan(2)) sum = fma(sum, x, c);
  return sum;
}

Tile bits_of(const Tile& x) { return bitcast(x, format_of(x).bits); }
Tile from_bits(const Tile& bits, const Format& f) { return bitcast(bits, f.type); }
Tile power_of_two(const Tile& j, const Format& f) {
  return from_bits((cast(j, f.bits) + f.bias) << f.mantissa, f);
}

/// Halves of the exponent one after the other: of results that are subnormal only the second
/// multiplication rounds.
Tile scaled(const Tile& x, const Tile& j) {
  const Format f = format_of(x);
  const Tile half = j >> 1;
  return x * power_of_two(half, f) * power_of_two(j - half, f);
}

Tile with_sign(const Tile& x, const Tile& y) {
  const Format f = format_of(x);
  return from_bits((bits_of(x) & f.magnitude()) | (bits_of(y) & ~f.magnitude()), f);
}

Tile kept_max(const Tile& x, double bound) { return max(x, bound, Nan::propagate); }
Tile kept_min(const Tile& x, double bound) { return min(x, bound, Nan::propagate); }

Reduced reduced(const Tile& x) {
  const Format f = format_of(x);
  // The bits of 2/3, rounded up so that the mantissa of 4/3 stays below.
  const std::int64_t two_thirds = is_wide(x) ? 0x3fe5555555555556 : 0x3f2aaaab;
  const Tile bits = bits_of(x), exponent = (bits - two_thirds) >> f.mantissa;
  return {from_bits(bits - (exponent << f.mantissa), f) - 1.0, exponent};
}

Tile log1p_part(const Tile& f) {
  if (!is_wide(f)) return fma(f * f, polynomial(f, kLog32), f);
  // With s = f / (2 + f): log(1 + f) = 2 atanh(s) = f - s (f - s^2 p(s^2)), as 2 s = f - s f.
  const Tile s = f / (2.0 + f), square = s * s;
  return fma(-s, fma(-square, polynomial(square, kLog64), f), f);
}

Tile log_of_normal(const Tile& x) {
  const auto [rest, exponent] = reduced(x);
  const Tile e = cast(exponent, x.dtype());
  // The upper part has so few digits that its multiples are exact.
  const double high = is_wide(x) ? 0x1.62e42fefa38p-1 : 0x1.62ep-1;
  const double low = is_wide(x) ? 0x1.ef35793c7673p-45 : 0x1.0bfbe8p-15;
  return fma(e, high, fma(e, low, log1p_part(rest)));
}

SineCosine sincos_pi(const Tile& x) {
  const Format f = format_of(x);
  const Tile halves = round(x * 2.0), r = fma(halves, -0.5, x), square = r * r;
  const double pi_low = is_wide(x) ? 0x1.1a62633145c07p-53 : -0x1.777a5cp-24;
  const Tile cubic = square * polynomial(square, kSinPi32, kSinPi64);
  const Tile sine = fma(r, is_wide(x) ? std::numbers::pi : 0x1.921fb6p+1, r * (cubic + pi_low));
  const Tile cosine = fma(square, polynomial(square, kCosPi32, kCosPi64), 1.0);
  const Tile quarter = cast(halves, f.bits), odd = (quarter & 1) == 1;
  const Tile flip_sine = (quarter & 2) != 0, flip_cosine = ((quarter + 1) & 2) != 0;
  const Tile s = where(odd, cosine, sine), c = where(odd, sine, cosine);
  return {where(flip_sine, -s, s), where(flip_cosine, -c, c)};
}

}  // namespace tegula::dsl::elementary
