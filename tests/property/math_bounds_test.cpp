// Errors of the math functions relative to long double: all inputs of f16 and bf16, samples of f32
// and f64. docs/math-bounds.md lists the measured errors; TEGULA_BLESS=1 writes it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>

#include "tests/fuzz/number_from_env.h"
#include "tests/math_functions.h"

namespace tegula::math_bounds_test {
namespace {

using test::MathFunction;
using test::Real;

/// The distance between adjacent numbers at `v`, and the digits, of a format.
struct Precision {
  int mantissa, lowest;
  Real largest;
};
Precision precision_of(DType d) {
  const DTypeInfo& info = dtype_info(d);
  const int bias = (1 << (info.exponent_bits - 1)) - 1;
  return {info.mantissa_bits, 1 - bias,
          std::ldexp(2 - std::ldexp(Real{1}, -info.mantissa_bits), bias)};
}
Real ulp_at(Real v, const Precision& p) {
  const int exponent = v == 0 ? p.lowest : std::max(std::ilogb(v), p.lowest);
  return std::ldexp(Real{1}, exponent - p.mantissa);
}

/// Error in ulp; a wrong special value counts as infinity.
double error_of(Real got, Real wanted, Real scale, const Precision& p) {
  const double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(wanted)) return std::isnan(got) ? 0 : wrong;
  if (std::isnan(got)) return wrong;
  // A value near the border may round to infinity or to the largest number.
  if (std::abs(wanted) > p.largest) {
    const Real near = std::abs(wanted) < p.largest * (1 + 64 * std::ldexp(Real{1}, -p.mantissa))
                          ? p.largest * (1 - 32 * std::ldexp(Real{1}, -p.mantissa))
                          : p.largest * 2;
    return (std::isinf(got) || std::abs(got) >= near) && std::signbit(got) == std::signbit(wanted)
               ? 0
               : wrong;
  }
  if (std::isinf(got)) return std::abs(wanted) > p.largest - 32 * ulp_at(p.largest, p) ? 0 : wrong;
  return static_cast<double>(std::abs(got - wanted) / ulp_at(std::max(std::abs(wanted), scale), p));
}

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// Arguments of T: bits of all kinds, ordinary numbers, those between -1 and 1 and those near 1.
template <class T>
std::vector<T> sample(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  const double specials[] = {0.0, -0.0, 1,     -1,     2,      0.5,  -0.5,  inf, -inf,
                             nan, 3,    171.5, -170.3, 1e-320, 35.1, -0.25, 1.5, 2.5};
  std::vector<T> out;
  for (double s : specials) out.push_back(static_cast<T>(s));
  while (out.size() < count) {
    const std::uint64_t r = random();
    const double unit = std::ldexp(static_cast<double>(random() >> 11), -53) * 2 - 1;
    T v{};
    if (r % 4 == 0) v = std::bit_cast<T>(static_cast<Bits<T>>(random()));
    if (r % 4 == 1) v = static_cast<T>(unit * std::ldexp(1.0, static_cast<int>(r >> 8) % 11));
    if (r % 4 == 2) v = static_cast<T>(unit);
    if (r % 4 == 3)
      v = static_cast<T>(1 + unit * std::ldexp(1.0, -static_cast<int>((r >> 8) % 20)));
    out.push_back(v);
  }
  return out;
}
template <class T>
std::vector<T> all_values() {
  std::vector<T> out;
  for (std::uint32_t b = 0; b < 0x10000; ++b)
    out.push_back(T::from_bits(static_cast<std::uint16_t>(b)));
  return out;
}

template <class T>
Real real_of(T v) {
  if constexpr (sizeof(T) == 2)
    return static_cast<float>(v);
  else
    return v;
}

/// Returns the nearest value of T.
template <class T>
Real rounded(Real v) {
  if constexpr (sizeof(T) == 2)
    return static_cast<float>(T(static_cast<float>(v)));
  else
    return static_cast<T>(v);
}

struct Worst {
  double error = 0;
  Real at = 0, other = 0, got = 0, wanted = 0;
};

template <class T>
Worst worst_of(const MathFunction& f, const std::vector<T>& x, const std::vector<T>& y) {
  const test::Domain& domain = sizeof(T) == 8 ? f.f64_domain : f.f32_domain;
  const std::vector<T> out = test::evaluated(f, x, y, Device::cpu());
  const Precision p = precision_of(dtype_of<T>);
  Worst worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Real a = real_of(x[i]), b = real_of(y[i]);
    if (std::isfinite(a) && (a < domain.low || a > domain.high)) continue;
    const bool is_exact = (sizeof(T) == 8 ? f.wide : f.narrow) == 0;
    const Real exactly = f.reference(a, b), got = real_of(out[i]);
    const Real wanted = is_exact ? rounded<T>(exactly) : exactly;
    const double error = error_of(got, wanted, f.is_absolute && a < 0 ? 1 : 0, p);
    if (error > worst.error) worst = {error, a, b, got, wanted};
  }
  return worst;
}

std::string text_of(const Worst& w) {
  std::ostringstream out;
  out.precision(20);
  out << w.error << " ulp at " << w.at << ", " << w.other << ": " << w.got << ", not " << w.wanted;
  return out.str();
}

/// Rounded up to a tenth, so that another libm does not change the page.
std::string tenths(double error) { return fmt::format("{:.1f}", std::ceil(error * 10) / 10); }

constexpr const char* kIntroduction = R"(# Measured bounds of the math functions

Written by `property_math_bounds_test` (`TEGULA_BLESS=1`). Largest errors in units in the last place of the result,
compared with long double, over all inputs of `f16` and `bf16` and over samples of `f32` and `f64` (all exponents,
numbers up to 1024, up to 1, and near 1). "bound" is what `tegula/elementary.h` states and the test asserts. The
functions consist of correctly rounded operations and integers, so that these figures hold on every device. Functions of
two operands are measured on samples only. -: an instruction of the hardware or a function of its approximations
([numerics](language/numerics.md)).

| function | f32, bound | measured | f64, bound | measured | f16 | bf16 |
|---|---|---|---|---|---|---|
)";

std::string bound_text(double bound) { return bound < 0 ? "-" : fmt::format("{}", bound); }

std::string row_of(const MathFunction& f, std::size_t count32, std::size_t count64) {
  const auto x32 = sample<f32>(count32, 1), y32 = sample<f32>(count32, 2);
  const auto x64 = sample<f64>(count64, 3), y64 = sample<f64>(count64, 4);
  const auto half = all_values<f16>();
  const auto brain = all_values<bf16>();
  std::string narrow = "-", of_half = "-", of_brain = "-";
  if (f.narrow >= 0) {
    const Worst w = worst_of(f, x32, y32);
    EXPECT_LE(w.error, f.narrow) << f.name << " of f32: " << text_of(w);
    narrow = tenths(w.error);
    if (!f.is_binary) {
      const Worst h = worst_of(f, half, half), b = worst_of(f, brain, brain);
      const double bound = f.narrow == 0 ? 0 : 0.51;
      EXPECT_LE(h.error, bound) << f.name << " of f16: " << text_of(h);
      EXPECT_LE(b.error, bound) << f.name << " of bf16: " << text_of(b);
      of_half = tenths(h.error), of_brain = tenths(b.error);
    }
  }
  const Worst w = worst_of(f, x64, y64);
  EXPECT_LE(w.error, f.wide) << f.name << " of f64: " << text_of(w);
  return fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", f.name, bound_text(f.narrow),
                     narrow, bound_text(f.wide), tenths(w.error), of_half, of_brain);
}

TEST(MathBounds, AreThoseOfThePage) {
  const std::size_t count32 = fuzz::number_from_env("TEGULA_MATH_SAMPLES", std::size_t{1} << 17);
  std::string page = kIntroduction;
  for (const MathFunction& f : test::math_functions()) page += row_of(f, count32, count32 / 4);
  if (count32 != std::size_t{1} << 17) return;
  const std::string path = std::string(TEGULA_SOURCE_DIR) + "/docs/math-bounds.md";
  if (const char* bless = std::getenv("TEGULA_BLESS"); bless && *bless) {
    std::ofstream(path) << page;
    return;
  }
  std::ifstream in(path);
  const std::string found((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(found, page) << "TEGULA_BLESS=1 rewrites " << path;
}

}  // namespace
}  // namespace tegula::math_bounds_test
