// Exact remainders of floats, by integer arithmetic modulo the divisor's significand.
#include "dsl/elementary/composed.h"
#include "dsl/elementary/parts.h"
#include "tegula/elementary.h"

namespace tegula {
namespace dsl::elementary {
namespace {

/// A positive float as significand * 2^(exponent - bias - mantissa bits).
struct Digits {
  Tile significand, exponent;  ///< unsigned, signed
};
Digits digits_of(const Tile& size, const Format& f) {
  const Tile bits = bits_of(size), stored = bits >> f.mantissa;
  const Tile hidden = std::int64_t{1} << f.mantissa;
  const Tile fraction = bits & (hidden - 1);
  const Tile significand = where(stored == 0, fraction, fraction | hidden);
  return {cast(significand, f.unsigned_bits), max(stored, cast(1, f.bits))};
}

/// Montgomery multiplication (1985) modulo an odd m: a b / 2^width.
class Montgomery {
 public:
  /// Computes the inverse of m modulo 2^width by Newton's method, starting from 5 correct bits.
  Montgomery(const Tile& m, const Format& f) : m_(m), inverse_((m * 3) ^ 2) {
    for (int right = 5; right < f.width; right *= 2) inverse_ = inverse_ * (2 - m * inverse_);
  }
  Tile multiplied(const Tile& a, const Tile& b) const {
    const Tile high = mulhi(a, b), taken = mulhi(a * b * inverse_, m_);
    return where(high < taken, high - taken + m_, high - taken);
  }
  /// Returns 2^n * 2^width modulo m.
  Tile power_of_two(const Tile& n, int bits) const {
    Tile power = (0 - m_) % m_;
    for (int bit = bits; bit-- > 0;) {
      power = multiplied(power, power);
      const Tile twice = power + power, kept = where(twice >= m_, twice - m_, twice);
      power = where(((n >> bit) & 1) == 1, kept, power);
    }
    return power;
  }

 private:
  Tile m_, inverse_;
};

/// Returns significand * 2^n modulo `modulus`, which is not 0. Common factors of 2 are removed
/// first, so that either the remaining modulus is odd or no power remains.
Tile modular(const Tile& significand, const Tile& n, const Tile& modulus, const Format& f) {
  const Tile zeros = cast(popc((modulus & (0 - modulus)) - 1), f.bits);
  const Tile common = min(zeros, n), rest = n - common;
  const Tile shift = cast(common, f.unsigned_bits), m = modulus >> shift;
  const Tile first = significand % m;
  const Montgomery ring(m | 1, f);
  // Exponents differ by less than 2 (bias + mantissa bits).
  const Tile power = ring.power_of_two(rest, f.width == 64 ? 12 : 9);
  return where(rest == 0, first, ring.multiplied(power, first)) << shift;
}

/// |x| modulo |y| or 2 |y|, as an integer in units of the last place of y; invalid for |x| < |y|.
struct Division {
  Tile rest, significand, exponent;
};
Division divided(const Tile& x, const Tile& y, const Format& f, int multiple) {
  const auto [dividend, high] = digits_of(x, f);
  const auto [divisor, low] = digits_of(y, f);
  const Tile safe = where(divisor == 0, cast(1, f.unsigned_bits), divisor);
  const Tile n = max(high - low, cast(0, f.bits));
  return {modular(dividend, n, safe * multiple, f), safe, low - (f.bias + f.mantissa)};
}

Tile has_none(const Tile& x, const Tile& y) {
  return (x != x) || (y != y) || (abs(x) == inf) || (y == 0.0);
}

Tile fmod_of(const Tile& x, const Tile& y) {
  const Format f = format_of(x);
  const Tile a = abs(x), b = abs(y);
  const Division d = divided(a, b, f, 1);
  const Tile size = scaled(cast(d.rest, f.type), d.exponent);
  return where(has_none(x, y), nan, with_sign(where(a < b, a, size), x));
}

/// Computes the IEEE 754 remainder from |x| modulo 2 |y|: if that is at least |y|, the truncated
/// quotient |x| / |y| is odd.
Tile remainder_of(const Tile& x, const Tile& y) {
  const Format f = format_of(x);
  const Tile a = abs(x), b = abs(y);
  const Division d = divided(a, b, f, 2);
  const Tile is_odd = d.rest >= d.significand;
  const Tile rest = where(is_odd, d.rest - d.significand, d.rest), twice = rest + rest;
  const Tile goes_up = (twice > d.significand) || ((twice == d.significand) && is_odd);
  const Tile number = cast(where(goes_up, d.significand - rest, rest), f.type);
  const Tile size = scaled(where(goes_up, -number, number), d.exponent);
  // For |x| < |y|, |x| - |y| is exact where it is used: there |x| > |y| / 2 (Sterbenz).
  const Tile small = where(a > b - a, a - b, a), value = where(a < b, small, size);
  return where(has_none(x, y), nan, where(bits_of(x) < 0, -value, value));
}

}  // namespace
}  // namespace dsl::elementary

namespace elementary = dsl::elementary;

Tile fmod(const Arg& x, const Arg& y) { return dsl::composed("fmod", x, y, elementary::fmod_of); }
Tile remainder(const Arg& x, const Arg& y) {
  return dsl::composed("remainder", x, y, elementary::remainder_of);
}

}  // namespace tegula
