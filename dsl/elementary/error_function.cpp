// The error function, its complement and their inverses, and the normal distribution.
#include <cmath>
#include <numbers>

#include "dsl/elementary/coefficients.h"
#include "dsl/elementary/composed.h"
#include "dsl/elementary/of_doubles.h"
#include "dsl/elementary/parts.h"
#include "tegula/elementary.h"

namespace tegula {
namespace dsl::elementary {
namespace {

/// e^(a^2) erfc(a) for a >= 0 up to 2^100 (Shepherd and Laframboise 1981).
Tile scaled_complement(const Tile& a) {
  const double center = is_wide(a) ? 4 : 2;
  const Tile q = (a - center) / (a + center);
  return polynomial(q, kErfcx32, kErfcx64) / fma(a, 2.0, 1.0);
}

/// e^-(high + low) * factor.
Tile times_power(const Tile& factor, const Tile& high, const Tile& low) {
  const auto [mantissa, exponent] = exp_parts(-high, -low);
  return scaled(factor * mantissa, exponent);
}

/// erfc(a) for a >= 0. The argument is clamped to a bound at which the result underflows to 0.
Tile complement(const Tile& a) {
  const Tile bounded = kept_min(a, is_wide(a) ? 30 : 12), square = bounded * bounded;
  return times_power(scaled_complement(bounded), square, fma(bounded, bounded, -square));
}

/// erf(x) for |x| <= 1; for f32 only |x| <= 1/2, which needs a polynomial of lower degree.
Tile small_erf(const Tile& x) {
  const std::span<const double> all(kErf64);
  return x * polynomial(x * x, is_wide(x) ? all : all.last(8));
}

Tile erfc_of(const Tile& x) {
  const Tile size = abs(x), v = complement(size);
  return where(size < 0.5, 1.0 - small_erf(x), where(x < 0.0, 2.0 - v, v));
}

Tile erfcx_of(const Tile& x) {
  const Tile a = abs(x), square = a * a, low = fma(a, a, -square);
  const Tile far = std::numbers::inv_sqrtpi / a;
  const Tile v = where(a > 0x1p40, far, scaled_complement(kept_min(a, 0x1p50)));
  const auto [mantissa, exponent] = exp_parts(kept_min(square, 1000), where(a > 30.0, 0.0, low));
  const Tile power = scaled(mantissa + mantissa, exponent);
  return where(x < 0.0, power - v, v);
}

/// Normal distribution: erfc(|x| / sqrt 2) / 2, or 1 minus that for x > 0. The exponent includes
/// the rounding error of x^2.
Tile normcdf_of(const Tile& x) {
  const Tile a = kept_min(abs(x), is_wide(x) ? 40 : 17), square = a * a;
  const Tile factor = 0.5 * scaled_complement(a * (std::numbers::sqrt2 / 2));
  const Tile v = times_power(factor, 0.5 * square, 0.5 * fma(a, a, -square));
  return where(x > 0.0, 1.0 - v, v);
}

/// First guess of the y with erf(y) = a, given w = -log(1 - a^2), after Giles 2010.
Tile inverse_guess(const Tile& a, const Tile& w) {
  const auto by = [](const Tile& t, const auto& list) {
    return polynomial(t, std::span<const double>(list));
  };
  const Tile root = sqrt(w);
  Tile factor = where(w <= 25.0, by(root - 3.5, kErfinvFar), by(root - 7.5, kErfinvFarther));
  if (is_wide(a)) factor = where(w <= 108.0, factor, by(root - 18.0, kErfinvFarthest));
  return a * where(w <= 5.0, by(w - 2.5, kErfinvNear), factor);
}

/// One step of Halley's method, on erf for a <= 1/2 and on erfc otherwise.
Tile inverse_step(const Tile& y, const Tile& a, const Tile& rest) {
  const Tile square = y * y;
  const Power power = exp_parts(square, fma(y, y, -square));
  const double half = std::numbers::sqrt2 * std::numbers::sqrt2 / (4 * std::numbers::inv_sqrtpi);
  const Tile by_complement =
      (scaled_complement(y) - scaled(rest, power.exponent) * power.mantissa) * half;
  const Tile by_erf = (a - small_erf(y)) * power.value() * half;
  const Tile step = where(a <= 0.5, by_erf, by_complement);
  return y + step / (1.0 - y * step);
}

/// y >= 0 with erf(y) = a and erfc(y) = rest.
Tile inverse(const Tile& a, const Tile& rest) {
  const Tile w = -logarithm(rest * (1.0 + a), Logarithm::natural);
  const Tile guess = inverse_guess(a, w);
  const Tile y = is_wide(a) ? inverse_step(guess, a, rest) : guess;
  return where(rest == 0.0, inf, where((rest > 0.0) && (a >= 0.0), y, nan));
}

Tile erfinv_of(const Tile& x) {
  const Tile size = abs(x);
  return with_sign(inverse(size, 1.0 - size), x);
}

Tile erfcinv_of(const Tile& x) {
  const Tile is_upper = x > 1.0, rest = where(is_upper, 2.0 - x, x);
  const Tile y = inverse(1.0 - rest, rest);
  return where(is_upper, -y, y);
}

Tile normcdfinv_of(const Tile& x) { return erfcinv_of(x + x) * -std::numbers::sqrt2; }

}  // namespace

Tile erf_of(const Tile& x) {
  const Tile size = abs(x);
  return where(size < 1.0, small_erf(x), with_sign(1.0 - complement(size), x));
}

}  // namespace dsl::elementary

namespace elementary = dsl::elementary;

Tile erfc(const Arg& x) { return dsl::composed("erfc", x, elementary::erfc_of); }
Tile erfcx(const Arg& x) { return dsl::composed("erfcx", x, elementary::erfcx_of); }
Tile erfinv(const Arg& x) { return dsl::composed("erfinv", x, elementary::erfinv_of); }
Tile erfcinv(const Arg& x) { return dsl::composed("erfcinv", x, elementary::erfcinv_of); }
Tile normcdf(const Arg& x) { return dsl::composed("normcdf", x, elementary::normcdf_of); }
Tile normcdfinv(const Arg& x) { return dsl::composed("normcdfinv", x, elementary::normcdfinv_of); }

}  // namespace tegula
