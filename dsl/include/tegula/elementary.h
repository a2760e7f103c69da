#pragma once
#include <utility>

#include "tegula/value.h"

/// More functions of floats, composed of correctly rounded operations and integer operations:
/// `cpu`, `sim` and every GPU compute the same bits. Each comment gives the measured error bounds
/// in ulp, (f32, f64) (docs/math-bounds.md); f16 and bf16 are computed in f32 and rounded once. NaN
/// gives NaN, arguments without a real result give NaN, and poles give infinity, as in C. Operands
/// are scalars or tiles of floats, else CompileError.
namespace tegula {

/// e^x - 1 (2, 2), 10^x (2, 2).
Tile expm1(const Arg& x);
Tile exp10(const Arg& x);
/// log(1 + x) (2, 2), log10(x) (2, 2).
Tile log1p(const Arg& x);
Tile log10(const Arg& x);

/// Up to |x| = 2^16 (f32) and 2^30 (f64), beyond which the reduction by pi loses digits: (3, 3).
Tile tan(const Arg& x);
/// sin(pi x), cos(pi x), tan(pi x), for all x: (2, 2), (2, 2), (3, 3).
Tile sin_pi(const Arg& x);
Tile cos_pi(const Arg& x);
Tile tan_pi(const Arg& x);
/// (2, 2) each, asin (3, 2); the angle of (x, y) is in [-pi, pi].
Tile asin(const Arg& x);
Tile acos(const Arg& x);
Tile atan(const Arg& x);
Tile atan2(const Arg& y, const Arg& x);

/// (3, 3) each.
Tile sinh(const Arg& x);
Tile cosh(const Arg& x);
/// (4, 4) each.
Tile asinh(const Arg& x);
Tile acosh(const Arg& x);
Tile atanh(const Arg& x);

/// (1, 1).
Tile cbrt(const Arg& x);
/// sqrt(x^2 + y^2) without overflow of the squares (2, 2).
Tile hypot(const Arg& x, const Arg& y);

/// 1 - erf(x) (5, 4), and e^(x^2) times it (5, 5).
Tile erfc(const Arg& x);
Tile erfcx(const Arg& x);
/// The y with erf(y) = x (6, 4), and with erfc(y) = x (6, 5).
Tile erfinv(const Arg& x);
Tile erfcinv(const Arg& x);
/// Distribution function of the standard normal distribution (5, 5), and its inverse (6, 5).
Tile normcdf(const Arg& x);
Tile normcdfinv(const Arg& x);

/// log |Gamma(x)| (6, 10); below 0, where it has zeros, in ulp of 1 or of a larger result.
Tile lgamma(const Arg& x);
/// Gamma(x) (8, 10).
Tile tgamma(const Arg& x);

/// The exact remainder of x / y with the sign of x; NaN where x is infinite or y is 0.
Tile fmod(const Arg& x, const Arg& y);
/// The same for the quotient rounded to the nearest integer, ties to even.
Tile remainder(const Arg& x, const Arg& y);
/// m and e (i32) with x = m 2^e, 1/2 <= |m| < 1; x and 0 if x is 0, infinite or NaN.
std::pair<Tile, Tile> frexp(const Arg& x);
/// x 2^exponent, rounded once; `exponent` is an integer.
Tile ldexp(const Arg& x, const Arg& exponent);
/// The next value after x, in x's type, in the direction of y.
Tile nextafter(const Arg& x, const Arg& y);
/// |x| with the sign of y.
Tile copysign(const Arg& x, const Arg& y);
/// x - y if it is positive, else 0.
Tile fdim(const Arg& x, const Arg& y);

}  // namespace tegula
