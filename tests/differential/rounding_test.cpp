// Conversions that round by random bits, towards zero or into a range, and extremes of which a NaN
// wins, against formulas of the host, on every device.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "devices.h"
#include "tegula/tegula.h"

namespace tegula::rounding_test {
namespace {

/// Floats of all exponents, with the edges of the small types among them.
std::vector<f32> floats(std::size_t count) {
  std::vector<f32> out{0.0f,     -0.0f,    inf,      -inf,     nan,       0x1p-149f, 0x1p-126f,
                       65504.0f, 65519.0f, 65520.0f, 65535.0f, -65536.0f, 448.0f,    464.0f,
                       -480.0f,  57344.0f, 61440.0f, 0x1p-24f, 0x1p-25f,  0x1p-9f,   0x1p-10f,
                       0x1p-16f, 0x1p-17f, 3.4e38f,  -3.4e38f, 0x1p-40f,  0x1p-70f};
  std::mt19937_64 random(5);
  while (out.size() < count) {
    const std::uint64_t r = random();
    const bool anywhere = r % 4 == 0;
    const auto exponent =
        static_cast<std::uint32_t>(anywhere ? (r >> 40) % 255 : 95 + (r >> 40) % 52);
    out.push_back(
        std::bit_cast<float>(static_cast<std::uint32_t>(r >> 8 & 0x807fffff) | exponent << 23));
  }
  return out;
}
std::vector<u32> words(std::size_t count) {
  std::mt19937 random(6);
  std::vector<u32> out(count);
  for (u32& w : out) w = random();
  return out;
}

/// Digits and least exponent of a type's normal numbers.
struct Shape {
  int mantissa, lowest;
};
Shape shape_of(DType d) {
  return {dtype_info(d).mantissa_bits, 2 - (1 << (dtype_info(d).exponent_bits - 1))};
}

/// Distance of neighbours in T at x.
double distance_at(double x, Shape s) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1, std::max(exponent - 1, s.lowest) - s.mantissa);
}

template <class T>
class Types : public testing::Test {};

class Rounding : public testing::TestWithParam<Device> {
 protected:
  template <class To, class From, class F>
  static std::vector<To> mapped(const std::vector<From>& x, F f) {
    const auto k = kernel("map", [f](In<From, 1> in, In<u32, 1> random, Out<To, 1> y) {
      for (auto i : grid(y, 256)) y(i) = f(in(i), random(i));
    });
    const auto n = static_cast<std::int64_t>(x.size());
    const Tensor in = Tensor::from(x, GetParam()),
                 random = Tensor::from(words(x.size()), GetParam()),
                 y = Tensor::empty({n}, dtype_of<To>, GetParam());
    k(in, random, y);
    return y.template to_vector<To>();
  }

  /// By double arithmetic: the part of the distance that x has above its lower neighbour, in units
  /// of the random bits, and the bits themselves make a carry or none.
  template <class T>
  static void expect_stochastic() {
    const auto x = floats(4000);
    const auto r = words(x.size());
    const auto y =
        mapped<T>(x, [](const Tile& v, const Tile& bits) { return cast<T>(v, Stochastic{bits}); });
    const Shape s = shape_of(dtype_of<T>);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(static_cast<float>(y[i]))) << i;
        continue;
      }
      double wanted = x[i];
      if (std::isfinite(x[i])) {
        const double size = std::abs(x[i]), q = distance_at(size, s);
        // As many random bits as the significand of x has below the distance, but no more than 31.
        int exponent = 0;
        std::frexp(x[i], &exponent);
        const int last = std::max(exponent - 1, -126) - 23;
        const int bits = std::min(static_cast<int>(std::log2(q)) - last, 31);
        const double low = std::floor(size / q),
                     part = std::floor((size / q - low) * std::ldexp(1, bits));
        const auto random = static_cast<double>(r[i] & ((std::uint64_t{1} << bits) - 1));
        wanted = std::copysign((low + (part + random >= std::ldexp(1, bits) ? 1 : 0)) * q, x[i]);
      }
      const T rounded(static_cast<float>(wanted));  // exact, or beyond the largest number
      ASSERT_EQ(y[i].bits, rounded.bits) << i << ": " << x[i] << " by " << r[i];
    }
  }

  template <class T>
  static void expect_to_zero() {
    const auto x = floats(4000);
    const auto y = mapped<T>(x, [](const Tile& v, const Tile&) { return cast<T>(v, Round::zero); });
    const Shape s = shape_of(dtype_of<T>);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) continue;
      const double q = std::isfinite(x[i]) ? distance_at(x[i], s) : 1;
      const double wanted = std::isfinite(x[i]) ? std::trunc(x[i] / q) * q : x[i];
      const double largest = static_cast<float>(T::max());
      const double clamped =
          std::isfinite(x[i]) ? std::copysign(std::min(std::abs(wanted), largest), wanted) : wanted;
      ASSERT_EQ(y[i].bits, T(static_cast<float>(clamped)).bits) << i << ": " << x[i];
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Rounding, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(Rounding, StochasticBf16) { expect_stochastic<bf16>(); }
TEST_P(Rounding, StochasticF16) { expect_stochastic<f16>(); }
TEST_P(Rounding, StochasticF8e4m3) { expect_stochastic<f8e4m3>(); }
TEST_P(Rounding, StochasticF8e5m2) { expect_stochastic<f8e5m2>(); }

TEST_P(Rounding, TowardsZeroBf16) { expect_to_zero<bf16>(); }
TEST_P(Rounding, TowardsZeroF16) { expect_to_zero<f16>(); }
TEST_P(Rounding, TowardsZeroF8e4m3) { expect_to_zero<f8e4m3>(); }
TEST_P(Rounding, TowardsZeroF8e5m2) { expect_to_zero<f8e5m2>(); }

/// Numbers of the type are not touched by any bits, and others have the right mean.
TEST_P(Rounding, TheMeanIsTheValue) {
  const std::size_t n = GetParam().kind == DeviceKind::cuda ? 1 << 20 : 1 << 14;
  for (const float v : {1.0f, 1.001f, -0.3337f, 3.0e-41f}) {
    const auto y = mapped<bf16>(std::vector<f32>(n, v), [](const Tile& x, const Tile& bits) {
      return cast<bf16>(x, Stochastic{bits});
    });
    double sum = 0;
    for (bf16 w : y) sum += static_cast<float>(w);
    const double q = distance_at(v, shape_of(DType::bf16));
    EXPECT_NEAR(sum / static_cast<double>(n), v, v == 1 ? 0 : 2 * q / std::sqrt(n)) << v;
  }
}

TEST_P(Rounding, FloatsToIntegersAndIntegersToFloats) {
  const std::vector<f32> x{0.5f, 1.5f, -2.5f, 2.51f, -0.7f, 1e20f, nan, -1e20f};
  EXPECT_EQ(
      (mapped<i32>(x, [](const Tile& v, const Tile&) { return cast<i32>(v, Round::nearest); })),
      (std::vector<i32>{0, 2, -2, 3, -1, 0x7fffffff, 0, -0x7fffffff - 1}));
  EXPECT_EQ((mapped<i32>(x, [](const Tile& v, const Tile&) { return cast<i32>(v, Round::zero); })),
            (std::vector<i32>{0, 1, -2, 2, 0, 0x7fffffff, 0, -0x7fffffff - 1}));
  const std::vector<i32> whole{16777217, 16777219, -16777219, 0x7fffffff};
  EXPECT_EQ(
      (mapped<f32>(whole, [](const Tile& v, const Tile&) { return cast<f32>(v, Round::zero); })),
      (std::vector<f32>{16777216, 16777218, -16777218, 2147483520.0f}));
}

TEST_P(Rounding, SaturatedConversions) {
  const auto to_f16 = mapped<f16>(
      std::vector<f32>{1e6f, -inf, 65520.0f, 3.0f},
      [](const Tile& v, const Tile&) { return cast<f16>(v, Round::nearest, Saturate::always); });
  EXPECT_EQ(static_cast<float>(to_f16[0]), 65504.0f);
  EXPECT_EQ(static_cast<float>(to_f16[1]), -65504.0f);
  EXPECT_EQ(static_cast<float>(to_f16[2]), 65504.0f);
  EXPECT_EQ(static_cast<float>(to_f16[3]), 3.0f);
  const std::vector<i32> whole{300, -300, 100, -129};
  EXPECT_EQ((mapped<i8>(whole,
                        [](const Tile& v, const Tile&) {
                          return cast<i8>(v, Round::nearest, Saturate::always);
                        })),
            (std::vector<i8>{127, -128, 100, -128}));
  EXPECT_EQ(
      (mapped<u8>(whole, [](const Tile& v,
                            const Tile&) { return cast<u8>(v, Round::zero, Saturate::always); })),
      (std::vector<u8>{255, 0, 100, 0}));
}

template <class T>
void expect_nan_wins(const std::vector<T>& low, const std::vector<T>& high) {
  ASSERT_EQ(low.size(), 3u);
  for (const auto& list : {low, high}) {
    EXPECT_TRUE(std::isnan(static_cast<double>(list[0])));
    EXPECT_TRUE(std::isnan(static_cast<double>(list[1])));
  }
  EXPECT_EQ(static_cast<double>(low[2]), 1);
  EXPECT_EQ(static_cast<double>(high[2]), 2);
}

TEST_P(Rounding, NanWinsWhereAsked) {
  const auto extremes = [&]<class T>(std::type_identity<T>) {
    const auto k = kernel("extremes", [](In<T, 1> a, In<T, 1> b, Out<T, 1> low, Out<T, 1> high) {
      for (auto i : grid(low, 4)) {
        low(i) = min(a(i), b(i), Nan::propagate);
        high(i) = max(a(i), b(i), Nan::propagate);
      }
    });
    const Tensor a = Tensor::from(std::vector<T>{T(nan), T(1), T(1)}, GetParam()),
                 b = Tensor::from(std::vector<T>{T(2), T(nan), T(2)}, GetParam()),
                 low = Tensor::empty({3}, dtype_of<T>, GetParam()),
                 high = Tensor::empty({3}, dtype_of<T>, GetParam());
    k(a, b, low, high);
    expect_nan_wins(low.to_vector<T>(), high.to_vector<T>());
  };
  extremes(std::type_identity<f32>());
  extremes(std::type_identity<f64>());
  extremes(std::type_identity<bf16>());
  extremes(std::type_identity<f16>());
}

}  // namespace
}  // namespace tegula::rounding_test
