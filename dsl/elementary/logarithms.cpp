// Logarithms and the inverse hyperbolic functions.
#include <cmath>
#include <numbers>

#include "dsl/elementary/composed.h"
#include "dsl/elementary/of_doubles.h"
#include "dsl/elementary/parts.h"
#include "tegula/elementary.h"

namespace tegula {
namespace dsl::elementary {

Tile log_of(const Tile& x) { return logarithm(x, Logarithm::natural); }
Tile log2_of(const Tile& x) { return logarithm(x, Logarithm::binary); }

namespace {

Tile log10_of(const Tile& x) { return logarithm(x, Logarithm::decimal); }

/// Computes log(1 + x). The exponent e is that of the rounded sum 1 + x, but the argument
/// (1 + x) 2^-e - 1 of the polynomial is computed from x, so the rounding of the sum has no effect.
Tile log1p_of(const Tile& x) {
  const Format f = format_of(x);
  const Tile sum = 1.0 + x, is_large = x > std::ldexp(1.0, f.mantissa + 1);
  const Tile e = where(is_large, 0, reduced(sum).exponent), power = power_of_two(-e, f);
  const Tile small = logarithm_of({fma(x, power, power - 1.0), e}, Logarithm::natural);
  const Tile finite = where(is_large, log_of_normal(x), small);
  const Tile special = where(x == -1.0, -inf, where(x == inf, inf, nan));
  return where((x > -1.0) && (x < inf), finite, special);
}

/// Returns true if x^2 + 1 rounds to x^2.
Tile is_far(const Tile& size) { return size > (is_wide(size) ? 0x1p28 : 0x1p13); }
Tile log_of_double(const Tile& size) { return log_of_normal(size) + std::numbers::ln2; }

Tile asinh_of(const Tile& x) {
  const Tile size = abs(x), square = size * size;
  const Tile near = log1p_of(size + square / (1.0 + sqrt(square + 1.0)));
  const Tile far = where(size == inf, inf, log_of_double(size));
  return with_sign(where(is_far(size), far, near), x);
}

Tile acosh_of(const Tile& x) {
  const Tile t = x - 1.0, near = log1p_of(t + sqrt(fma(t, t, t + t)));
  const Tile far = where(x == inf, inf, log_of_double(x));
  return where(x < 1.0, nan, where(is_far(x), far, near));
}

Tile atanh_of(const Tile& x) {
  const Tile size = abs(x);
  return with_sign(0.5 * log1p_of((size + size) / (1.0 - size)), x);
}

}  // namespace
}  // namespace dsl::elementary

namespace elementary = dsl::elementary;

Tile log10(const Arg& x) { return dsl::composed("log10", x, elementary::log10_of); }
Tile log1p(const Arg& x) { return dsl::composed("log1p", x, elementary::log1p_of); }
Tile asinh(const Arg& x) { return dsl::composed("asinh", x, elementary::asinh_of); }
Tile acosh(const Arg& x) { return dsl::composed("acosh", x, elementary::acosh_of); }
Tile atanh(const Arg& x) { return dsl::composed("atanh", x, elementary::atanh_of); }

}  // namespace tegula
