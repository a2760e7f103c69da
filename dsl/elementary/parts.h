#pragma once
// Parts of the math functions: polynomials, argument reductions and the bits of a float. They use
// only correctly rounded operations and integers, so that all executors compute the same bits.
// Arguments are f32 or f64; the results have their type.
#include <array>
#include <cstdint>
#include <span>

#include "dsl/elementwise.h"
#include "tegula/math.h"

namespace tegula::dsl::elementary {

/// IEEE 754's binary32 or binary64.
struct Format {
  DType type, bits, unsigned_bits;
  int width, mantissa;  ///< total bits, stored bits of the significand
  std::int64_t bias;

  std::int64_t infinity() const { return (2 * bias + 1) << mantissa; }
  std::int64_t one() const { return bias << mantissa; }
  std::int64_t magnitude() const { return infinity() | ((std::int64_t{1} << mantissa) - 1); }
  double smallest_normal() const;
};
Format format_of(const Tile& x);
inline bool is_wide(const Tile& x) { return x.dtype() == DType::f64; }

/// Evaluates a polynomial of two or more coefficients, highest power first, by Horner's scheme with
/// fused multiply-adds.
Tile polynomial(const Tile& x, std::span<const double> coefficients);
/// Evaluates the polynomial of the first list for f32, of the second for f64.
template <std::size_t N, std::size_t M>
Tile polynomial(const Tile& x, const std::array<double, N>& narrow,
                const std::array<double, M>& wide) {
  return is_wide(x) ? polynomial(x, std::span<const double>(wide))
                    : polynomial(x, std::span<const double>(narrow));
}

/// Return the bits as a signed integer, and the float with these bits.
Tile bits_of(const Tile& x);
Tile from_bits(const Tile& bits, const Format& f);
/// Returns 2^j for an integer tile; the power must be a normal number.
Tile power_of_two(const Tile& j, const Format& f);
/// x * 2^j rounded once, for |j| < 2 bias.
Tile scaled(const Tile& x, const Tile& j);
/// |x| with the sign of y.
Tile with_sign(const Tile& x, const Tile& y);
/// Return max(x, bound) and min(x, bound), or NaN if x is NaN.
Tile kept_max(const Tile& x, double bound);
Tile kept_min(const Tile& x, double bound);

/// A positive normal number m 2^e with 2/3 <= m < 4/3: `rest` is m - 1, which is exact, and
/// `exponent` is e.
struct Reduced {
  Tile rest, exponent;  ///< of x's type, integer
};
Reduced reduced(const Tile& x);
/// Returns the natural logarithm of a positive normal number.
Tile log_of_normal(const Tile& x);
enum class Logarithm : std::uint8_t { natural, binary, decimal };
/// Returns the logarithm of (1 + rest) 2^exponent.
Tile logarithm_of(const Reduced& x, Logarithm base);
/// Returns the logarithm of any number.
Tile logarithm(const Tile& x, Logarithm base);
/// The unevaluated sum high + low, which has nearly twice the precision of one number. log_sum()
/// returns the natural logarithm of a positive normal number.
struct Sum {
  Tile high, low;
};
Sum log_sum(const Tile& x);
/// Returns a + b and its rounding error.
Sum exact_sum(const Tile& a, const Tile& b);

/// A number as m 2^j.
struct Power {
  Tile mantissa, exponent;  ///< of the argument's type, integer

  Tile value() const { return scaled(mantissa, exponent); }
};
/// Returns {x - j ln 2, j}, where j is the integer nearest to x / ln 2.
Reduced without_powers(const Tile& x);
/// Returns e^(x + low) for a small `low`; overflow and underflow occur only in value().
Power exp_parts(const Tile& x);
Power exp_parts(const Tile& x, const Tile& low);
/// e^r - 1 for |r| <= ln(2) / 2.
Tile expm1_part(const Tile& r);

/// sin(pi x) and cos(pi x); NaN for infinities.
struct SineCosine {
  Tile sine, cosine;
};
SineCosine sincos_pi(const Tile& x);
/// Returns sine and cosine of the angle plus a number of quarter turns.
SineCosine turned(const Tile& sine, const Tile& cosine, const Tile& quarters);

}  // namespace tegula::dsl::elementary
