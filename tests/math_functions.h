#pragma once
// The functions of tegula/elementary.h, and those of math.h that are composed for f64, with
// references in long double and the bounds that the header states.
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "tegula/tegula.h"

namespace tegula::test {

using Real = long double;

/// The interval on which a function is measured.
struct Domain {
  double low = -std::numeric_limits<double>::max(), high = std::numeric_limits<double>::max();
};

struct MathFunction {
  const char* name;
  Tile (*apply)(const Tile& x, const Tile& y);
  Real (*reference)(Real x, Real y);
  double narrow, wide;  ///< bounds in ulp of f32 and f64; 0: exact, below 0: not measured
  Domain f32_domain{}, f64_domain{};
  bool is_binary = false;
  bool is_absolute = false;  ///< ulp of 1 at least, for arguments below 0
};

inline Real half_turns(Real x, bool cosine) {
  const Real turn = x - 2 * std::nearbyint(x / 2), n = std::nearbyint(2 * turn);
  const Real r = (turn - n / 2) * std::numbers::pi_v<Real>;
  const int quarter = (static_cast<int>(n) + (cosine ? 1 : 0)) & 3;
  const Real v = (quarter & 1) != 0 ? std::cos(r) : std::sin(r);
  return (quarter & 2) != 0 ? -v : v;
}

/// e^(x^2) erfc(x): by the continued fraction where the factors leave the range.
inline Real scaled_complement(Real x) {
  if (x < -150) return std::numeric_limits<Real>::infinity();
  if (x < 20) {
    const Real square = x * x, low = std::fma(x, x, -square);
    return std::exp(square) * (1 + low) * std::erfc(x);
  }
  Real fraction = x;
  for (int i = 60; i > 0; --i) fraction = x + i / Real{2} / fraction;
  return std::numbers::inv_sqrtpi_v<Real> / fraction;
}

inline Real normal_distribution(Real x) {
  if (std::isinf(x)) return x > 0 ? 1 : 0;
  const Real root = std::numbers::sqrt2_v<Real> / 2, a = -x * root;
  // root is rounded: corrects for its error times x, and for that of the product.
  const Real root_low = 1.8950325588932570797e-20L, low = std::fma(-x, root, -a) - x * root_low;
  return (std::erfc(a) - 2 * std::numbers::inv_sqrtpi_v<Real> * std::exp(-a * a) * low) / 2;
}

/// The y with erf(y) = a and erfc(y) = rest, by bisection and Newton's method.
inline Real inverse_error_function(Real a, Real rest) {
  if (rest == 0) return std::numeric_limits<Real>::infinity();
  if (!(rest > 0 && a >= 0)) return std::numeric_limits<Real>::quiet_NaN();
  Real low = 0, high = 30;
  for (int i = 0; i < 40; ++i) {
    const Real middle = (low + high) / 2;
    (std::erfc(middle) > rest ? low : high) = middle;
  }
  Real y = a < Real{0.1} ? a / (2 * std::numbers::inv_sqrtpi_v<Real>) : (low + high) / 2;
  for (int i = 0; i < 8; ++i) {
    const Real slope = 2 * std::numbers::inv_sqrtpi_v<Real> * std::exp(-y * y);
    y += a <= Real{0.5} ? (a - std::erf(y)) / slope : (std::erfc(y) - rest) / slope;
  }
  return y;
}
inline Real inverse_erf(Real x) {
  return std::copysign(inverse_error_function(std::abs(x), 1 - std::abs(x)), x);
}
inline Real inverse_erfc(Real x) {
  return x > 1 ? -inverse_error_function(x - 1, 2 - x) : inverse_error_function(1 - x, x);
}

#define TEGULA_UNARY(name, reference, ...)                    \
  {#name, [](const Tile& x, const Tile&) { return name(x); }, \
   [](Real x, Real) -> Real { return reference; }, __VA_ARGS__}
#define TEGULA_BINARY(name, reference, narrow, wide)        \
  {#name,                                                   \
   [](const Tile& x, const Tile& y) { return name(x, y); }, \
   [](Real x, Real y) -> Real { return reference; },        \
   narrow,                                                  \
   wide,                                                    \
   {},                                                      \
   {},                                                      \
   true}

inline const std::vector<MathFunction>& math_functions() {
  constexpr Domain kAngle32{-65536, 65536}, kAngle64{-0x1p30, 0x1p30};
  static const std::vector<MathFunction> kAll{
      TEGULA_UNARY(exp, std::exp(x), -1, 2),
      TEGULA_UNARY(exp2, std::exp2(x), -1, 2),
      TEGULA_UNARY(exp10, std::pow(Real{10}, x), 2, 2),
      TEGULA_UNARY(expm1, std::expm1(x), 2, 2),
      TEGULA_UNARY(log, std::log(x), -1, 2),
      TEGULA_UNARY(log2, std::log2(x), -1, 3),
      TEGULA_UNARY(log10, std::log10(x), 2, 2),
      TEGULA_UNARY(log1p, std::log1p(x), 2, 2),
      TEGULA_UNARY(sin, std::sin(x), -1, 2, {}, kAngle64),
      TEGULA_UNARY(cos, std::cos(x), -1, 2, {}, kAngle64),
      TEGULA_UNARY(tan, std::tan(x), 3, 3, kAngle32, kAngle64),
      TEGULA_UNARY(sin_pi, half_turns(x, false), 2, 2),
      TEGULA_UNARY(cos_pi, half_turns(x, true), 2, 2),
      TEGULA_UNARY(tan_pi, half_turns(x, false) / half_turns(x, true), 3, 3),
      TEGULA_UNARY(asin, std::asin(x), 3, 2),
      TEGULA_UNARY(acos, std::acos(x), 2, 2),
      TEGULA_UNARY(atan, std::atan(x), 2, 2),
      TEGULA_BINARY(atan2, std::atan2(x, y), 2, 2),
      TEGULA_UNARY(sinh, std::sinh(x), 3, 3),
      TEGULA_UNARY(cosh, std::cosh(x), 3, 3),
      TEGULA_UNARY(tanh, std::tanh(x), -1, 3),
      TEGULA_UNARY(asinh, std::asinh(x), 4, 4),
      TEGULA_UNARY(acosh, std::acosh(x), 4, 4),
      TEGULA_UNARY(atanh, std::atanh(x), 4, 4),
      TEGULA_UNARY(rsqrt, 1 / std::sqrt(x), -1, 2),
      TEGULA_UNARY(cbrt, std::cbrt(x), 1, 1),
      TEGULA_BINARY(hypot, std::hypot(x, y), 2, 2),
      TEGULA_UNARY(erf, std::erf(x), -1, 2),
      TEGULA_UNARY(erfc, std::erfc(x), 5, 4),
      TEGULA_UNARY(erfcx, scaled_complement(x), 5, 5),
      TEGULA_UNARY(erfinv, inverse_erf(x), 6, 4),
      TEGULA_UNARY(erfcinv, inverse_erfc(x), 6, 5),
      TEGULA_UNARY(normcdf, normal_distribution(x), 5, 5),
      TEGULA_UNARY(normcdfinv, -std::numbers::sqrt2_v<Real> * inverse_erfc(2 * x), 6, 5),
      TEGULA_UNARY(lgamma, std::lgamma(x), 6, 10, {}, {}, false, true),
      TEGULA_UNARY(tgamma, std::tgamma(x), 8, 10),
      TEGULA_BINARY(fmod, std::fmod(x, y), 0, 0),
      TEGULA_BINARY(remainder, std::remainder(x, y), 0, 0),
      TEGULA_BINARY(copysign, std::copysign(x, y), 0, 0),
      TEGULA_BINARY(fdim, std::fdim(x, y), 1, 1),
      {"ldexp",
       [](const Tile& x, const Tile& y) { return ldexp(x, cast<i32>(y)); },
       [](Real x, Real y) -> Real {
         return std::isnan(y)
                    ? x
                    : std::ldexp(x, static_cast<int>(std::clamp<Real>(std::trunc(y), -9000, 9000)));
       },
       0,
       0,
       {},
       {},
       true},
      {"frexp", [](const Tile& x, const Tile&) { return frexp(x).first; },
       [](Real x, Real) -> Real {
         int exponent = 0;
         return std::frexp(x, &exponent);
       },
       0, 0},
      {"frexp, exponent",
       [](const Tile& x, const Tile&) { return cast(frexp(x).second, x.dtype()); },
       [](Real x, Real) -> Real {
         int exponent = 0;
         if (std::isfinite(x)) std::frexp(x, &exponent);
         return exponent;
       },
       0, 0},
  };
  return kAll;
}
#undef TEGULA_UNARY
#undef TEGULA_BINARY

/// y = f(x, y), element by element.
template <class T>
std::vector<T> evaluated(const MathFunction& f, const std::vector<T>& x, const std::vector<T>& y,
                         Device device) {
  const auto k = kernel("map", [f](In<T, 1> a, In<T, 1> b, Out<T, 1> out) {
    for (auto i : grid(out, 1024)) out(i) = f.apply(a(i), b(i));
  });
  const Tensor a = Tensor::from(x, device), b = Tensor::from(y, device);
  const Tensor out = Tensor::empty({static_cast<std::int64_t>(x.size())}, dtype_of<T>, device);
  k(a, b, out);
  return out.template to_vector<T>();
}

}  // namespace tegula::test
