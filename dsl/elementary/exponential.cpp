// Powers of e, 2 and 10 and the hyperbolic functions.
#include <numbers>

#include "dsl/elementary/coefficients.h"
#include "dsl/elementary/composed.h"
#include "dsl/elementary/of_doubles.h"
#include "dsl/elementary/parts.h"
#include "tegula/elementary.h"

namespace tegula {
namespace dsl::elementary {

Tile exp_of(const Tile& x) { return exp_parts(x).value(); }

Tile exp2_of(const Tile& x) {
  const double bound = is_wide(x) ? 2000 : 250;
  const Tile bounded = kept_max(kept_min(x, bound), -bound), j = round(bounded);
  const Tile mantissa = 1.0 + expm1_part((bounded - j) * std::numbers::ln2);
  return scaled(mantissa, cast(j, format_of(x).bits));
}

Tile tanh_of(const Tile& x) {
  const Tile size = abs(x), square = x * x;
  const Tile small = fma(size * square, polynomial(square, kTanh64), size);
  const Tile large = 1.0 - 2.0 / (exp_of(kept_min(size, 22) * 2.0) + 1.0);
  return with_sign(where(size < 0.55, small, large), x);
}

namespace {

Tile exp10_of(const Tile& x) {
  const double bound = is_wide(x) ? 600 : 75;
  // The upper part of log10(2) has so few digits that its multiples are exact.
  const double high = is_wide(x) ? 0x1.34413509f78p-2 : 0x1.344p-2;
  const double low = is_wide(x) ? 0x1.fef311f12b358p-46 : 0x1.3509f8p-18;
  const Tile bounded = kept_max(kept_min(x, bound), -bound);
  const Tile j = round(bounded * (std::numbers::ln10 / std::numbers::ln2));
  const Tile rest = fma(j, -low, fma(j, -high, bounded));
  return scaled(1.0 + expm1_part(rest * std::numbers::ln10), cast(j, format_of(x).bits));
}

/// 2^j (e^r - 1) + (2^j - 1) for |x| <= 60: 2^j - 1 is exact, or rounds to 2^j or to -1.
Tile expm1_of(const Tile& x) {
  const auto [rest, j] = without_powers(kept_max(kept_min(x, 60), -60));
  const Tile power = power_of_two(j, format_of(x));
  return where(x > 60.0, exp_of(x), fma(power, expm1_part(rest), power - 1.0));
}

/// e^|x| / 2.
Tile half_power(const Tile& size) {
  const auto [mantissa, exponent] = exp_parts(size);
  return scaled(mantissa, exponent - 1);
}

Tile sinh_of(const Tile& x) {
  const Tile size = abs(x), square = x * x, half = half_power(size);
  const Tile small = fma(size * square, polynomial(square, kSinh32, kSinh64), size);
  return with_sign(where(size < 1.0, small, half - 0.25 / half), x);
}

Tile cosh_of(const Tile& x) {
  const Tile half = half_power(abs(x));
  return half + 0.25 / half;
}

}  // namespace
}  // namespace dsl::elementary

namespace elementary = dsl::elementary;

Tile exp10(const Arg& x) { return dsl::composed("exp10", x, elementary::exp10_of); }
Tile expm1(const Arg& x) { return dsl::composed("expm1", x, elementary::expm1_of); }
Tile sinh(const Arg& x) { return dsl::composed("sinh", x, elementary::sinh_of); }
Tile cosh(const Arg& x) { return dsl::composed("cosh", x, elementary::cosh_of); }

}  // namespace tegula
