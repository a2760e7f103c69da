// The gamma function and the logarithm of its magnitude.
#include <numbers>

#include "dsl/elementary/coefficients.h"
#include "dsl/elementary/composed.h"
#include "dsl/elementary/parts.h"
#include "tegula/elementary.h"

namespace tegula {
namespace dsl::elementary {
namespace {

constexpr double kHalfLogTwoPi = 0.91893853320467274178;

/// The remainder of Stirling's formula, for a >= 2.5 (f32) or 6 (f64).
Tile stirling_rest(const Tile& a) {
  const Tile inverse = 1.0 / a, square = inverse * inverse;
  return inverse * polynomial(square, kStirling32, kStirling64);
}

/// Returns the argument from which Stirling's formula is used.
double stirling_from(const Tile& a) { return is_wide(a) ? 6 : 2.5; }

/// (a - 1) (a - 2) .. down to a factor in [1.5, 2.5], which is excluded, and that factor: for f64
/// between 2.5 and 6.
struct Descent {
  Tile product, rest;
};
Descent descent(const Tile& a) {
  Tile product = cast(1.0, a.dtype()), rest = a;
  if (!is_wide(a)) return {product, rest};
  for (int i = 0; i < 4; ++i) {
    const Tile is_above = rest >= 2.5;
    rest = where(is_above, rest - 1.0, rest);
    product = where(is_above, product * rest, product);
  }
  return {product, rest};
}

/// log Gamma(a) for a > 0.
Tile lgamma_of_positive(const Tile& a) {
  const auto [product, rest] = descent(kept_min(a, 8));
  const Tile at_1 = where(a < 0.5, a, a - 1.0),
             near_1 = at_1 * polynomial(at_1, kLgamma1_32, kLgamma1_64);
  const Tile at_2 = rest - 2.0;
  Tile near_2 = at_2 * polynomial(at_2, kLgamma2_32, kLgamma2_64);
  if (is_wide(a)) near_2 = near_2 + log_of_normal(product);
  const Tile log_a = logarithm(a, Logarithm::natural);
  const Tile far = fma(a - 0.5, log_a - 1.0, (kHalfLogTwoPi - 0.5) + stirling_rest(a));
  const Tile near = where(a < 1.5, where(a < 0.5, near_1 - log_a, near_1), near_2);
  return where(a == inf, inf, where(a < stirling_from(a), near, far));
}

/// Uses the reflection Gamma(x) Gamma(-x) = -pi / (x sin(pi x)).
Tile lgamma_of(const Tile& x) {
  const Tile a = abs(x), positive = lgamma_of_positive(a), sine = abs(sincos_pi(a).sine);
  const Tile reflected = logarithm(std::numbers::pi / (a * sine), Logarithm::natural) - positive;
  const Tile tiny = a < (is_wide(x) ? 0x1p-60 : 0x1p-30);
  const Tile negative = where(tiny, positive, where(sine == 0.0, inf, reflected));
  return where(x < 0.0, where(a == inf, inf, negative), positive);
}

/// Gamma(a) for 0 < a < 2.5 (f32) or 6 (f64).
Tile small_gamma(const Tile& a) {
  const auto [product, rest] = descent(kept_min(a, 8));
  const Tile n = round(rest), t = rest - n;
  const Tile at_1 = 1.0 / polynomial(t, kRgamma32, kRgamma64);
  const Tile low = where(n == 0.0, at_1 / rest, at_1);
  return where(n >= 2.0, at_1 * (rest - 1.0), low) * product;
}

/// Gamma(a) by Stirling's formula: the exponent is a sum of two numbers, because it is large.
Power large_gamma(const Tile& a) {
  const auto [log_high, log_low] = log_sum(a);
  const Tile factor = a - 0.5, product = factor * log_high;
  const Tile product_low = fma(factor, log_high, -product) + factor * log_low;
  const auto [part, part_low] = exact_sum(product, -a);
  const auto [sum, sum_low] = exact_sum(part, cast(kHalfLogTwoPi, a.dtype()));
  return exp_parts(sum, stirling_rest(a) + (product_low + (part_low + sum_low)));
}

Tile tgamma_of(const Tile& x) {
  const Format f = format_of(x);
  const Tile a = kept_min(abs(x), 2000), is_small = a < stirling_from(x);
  const auto [mantissa, exponent] = large_gamma(kept_max(a, 2));
  const Tile m = where(is_small, small_gamma(kept_max(a, f.smallest_normal())), mantissa);
  const Tile j = where(is_small, 0, exponent), sine = sincos_pi(abs(x)).sine;
  const Tile reflected = scaled(-std::numbers::pi / (m * a * sine), -j);
  const Tile negative = where((sine == 0.0) || (x == -inf), nan, reflected);
  const Tile number = where(x < 0.0, negative, scaled(m, j));
  return where(a < f.smallest_normal(), 1.0 / x, number);
}

}  // namespace
}  // namespace dsl::elementary

namespace elementary = dsl::elementary;

Tile lgamma(const Arg& x) { return dsl::composed("lgamma", x, elementary::lgamma_of); }
Tile tgamma(const Arg& x) { return dsl::composed("tgamma", x, elementary::tgamma_of); }

}  // namespace tegula
