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

/// Multiplies by a power of two for each half of the exponent, so that 2^j need not be a normal
/// number. If the result is subnormal, only the second multiplication rounds.
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
  // The bits of 2/3, rounded up so that the mantissa stays below 4/3.
  const std::int64_t two_thirds = is_wide(x) ? 0x3fe5555555555556 : 0x3f2aaaab;
  const Tile bits = bits_of(x), exponent = (bits - two_thirds) >> f.mantissa;
  return {from_bits(bits - (exponent << f.mantissa), f) - 1.0, exponent};
}

namespace {

/// log(1 + f) for |f| <= 1/3.
Tile log1p_part(const Tile& f) {
  if (!is_wide(f)) return fma(f * f, polynomial(f, kLog32), f);
  // With s = f / (2 + f): log(1 + f) = 2 atanh(s) = f - s (f - s^2 p(s^2)), as 2 s = f - s f.
  const Tile s = f / (2.0 + f), square = s * s;
  return fma(-s, fma(-square, polynomial(square, kLog64), f), f);
}

/// The logarithm of 2 in a base as a sum whose upper part has few digits, and 1 / ln(base).
struct Base {
  double high, low, factor;
};

Base base_of(Logarithm base, bool wide) {
  // The upper parts have so few digits that their products with an exponent are exact.
  const Base narrow[] = {{0x1.62ep-1, 0x1.0bfbe8p-15, 1},
                         {1, 0, std::numbers::log2e},
                         {0x1.344p-2, 0x1.3509f8p-18, std::numbers::log10e}};
  const Base binary64[] = {{0x1.62e42fefa38p-1, 0x1.ef35793c7673p-45, 1},
                           {1, 0, std::numbers::log2e},
                           {0x1.34413509f78p-2, 0x1.fef311f12b358p-46, std::numbers::log10e}};
  return (wide ? binary64 : narrow)[static_cast<int>(base)];
}

}  // namespace

Tile logarithm_of(const Reduced& r, Logarithm base) {
  const bool wide = is_wide(r.rest);
  const Base b = base_of(base, wide);
  const Tile e = cast(r.exponent, r.rest.dtype()), natural = log1p_part(r.rest);
  const Tile part = b.factor == 1 ? natural : natural * b.factor;
  return fma(e, b.high, b.low == 0 ? part : fma(e, b.low, part));
}

Tile log_of_normal(const Tile& x) { return logarithm_of(reduced(x), Logarithm::natural); }

Tile logarithm(const Tile& x, Logarithm base) {
  const Format f = format_of(x);
  const int lift = f.mantissa + 2;
  const Tile tiny = x < f.smallest_normal();
  Reduced r = reduced(where(tiny, x * std::ldexp(1.0, lift), x));
  r.exponent = where(tiny, r.exponent - lift, r.exponent);
  const Tile special = where(x == 0.0, -inf, where(x == inf, inf, nan));
  return where((x > 0.0) && (x < inf), logarithm_of(r, base), special);
}

Sum exact_sum(const Tile& a, const Tile& b) {
  const Tile sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

Sum log_sum(const Tile& x) {
  const auto [f, exponent] = reduced(x);
  const Tile e = cast(exponent, x.dtype());
  const Base b = base_of(Logarithm::natural, is_wide(x));
  // s = f / (2 + f) with its rounding: log(1 + f) = 2 s + s^3 p(s^2).
  const Tile below = 2.0 + f, below_low = f - (below - 2.0), s = f / below;
  const Tile s_low = (fma(-s, below, f) - s * below_low) / below;
  const Tile square = s * s, rest = s * square * polynomial(square, kLog64);
  const auto [high, low] = exact_sum(e * b.high, s + s);
  return exact_sum(high, low + fma(e, b.low, rest + 2.0 * s_low));
}

Tile expm1_part(const Tile& r) { return fma(r * r, polynomial(r, kExp32, kExp64), r); }

namespace {

/// Clamps x to bounds beyond which results are 0 or infinity.
Tile bounded_exponent(const Tile& x) {
  const double bound = is_wide(x) ? 1400 : 170;
  return kept_max(kept_min(x, bound), -bound);
}

}  // namespace

Reduced without_powers(const Tile& x) {
  const Base b = base_of(Logarithm::natural, is_wide(x));
  const Tile j = round(x * std::numbers::log2e);
  return {fma(j, -b.low, fma(j, -b.high, x)), cast(j, format_of(x).bits)};
}

Power exp_parts(const Tile& x) {
  const auto [r, j] = without_powers(bounded_exponent(x));
  return {1.0 + expm1_part(r), j};
}
Power exp_parts(const Tile& x, const Tile& low) {
  const auto [r, j] = without_powers(bounded_exponent(x));
  return {1.0 + expm1_part(r + low), j};
}

SineCosine sincos_pi(const Tile& x) {
  const Format f = format_of(x);
  // Subtract whole turns, which is exact, so that the number of quarter turns is a small integer.
  const Tile turn = fma(round(x * 0.5), -2.0, x);
  const Tile halves = round(turn * 2.0), r = fma(halves, -0.5, turn), square = r * r;
  const double pi_low = is_wide(x) ? 0x1.1a62633145c07p-53 : -0x1.777a5cp-24;
  const Tile cubic = square * polynomial(square, kSinPi32, kSinPi64);
  const Tile sine = fma(r, is_wide(x) ? std::numbers::pi : 0x1.921fb6p+1, r * (cubic + pi_low));
  const Tile cosine = fma(square, polynomial(square, kCosPi32, kCosPi64), 1.0);
  return turned(sine, cosine, cast(halves, f.bits));
}

SineCosine turned(const Tile& sine, const Tile& cosine, const Tile& quarters) {
  const Tile odd = (quarters & 1) == 1;
  const Tile flip_sine = (quarters & 2) != 0, flip_cosine = ((quarters + 1) & 2) != 0;
  const Tile s = where(odd, cosine, sine), c = where(odd, sine, cosine);
  return {where(flip_sine, -s, s), where(flip_cosine, -c, c)};
}

}  // namespace tegula::dsl::elementary
