// Random numbers have the bits of Philox's paper and of a second implementation on every device.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "devices.h"
#include "tegula/tegula.h"

namespace tegula::random_test {
namespace {

using Words = std::array<std::uint32_t, 4>;

/// Philox 4x32-10 as the paper writes it.
Words reference(Words c, std::uint32_t k0, std::uint32_t k1) {
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t a = std::uint64_t{0xd2511f53} * c[0], b = std::uint64_t{0xcd9e8d57} * c[2];
    const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
    const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
    c = {high(b) ^ c[1] ^ k0, low(b), high(a) ^ c[3] ^ k1, low(a)};
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  return c;
}
Words block(std::uint64_t seed, std::uint64_t counter) {
  return reference(
      {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}
std::uint32_t word(std::uint64_t seed, std::uint64_t offset) {
  return block(seed, offset / 4)[offset % 4];
}

constexpr std::uint64_t kSeed = 0x123456789abcdef0, kFirst = 0xffffffff0;  // beyond 32 bits
constexpr std::int64_t kCount = 3000;

class Random : public testing::TestWithParam<Device> {
 protected:
  /// y[i] = f(seed, first + i) for 0 <= i < count.
  template <class T, class F>
  static std::vector<T> drawn(F f, std::int64_t count = kCount, std::uint64_t first = kFirst,
                              Device device = GetParam()) {
    const auto k = kernel("draw", [f](Scalar<u64> seed, Scalar<u64> begin, Out<T, 1> y) {
      for (auto i : grid(y, 256)) y(i) = f(Tile(seed.value()), begin + cast<u64>(i.indices()));
    });
    const Tensor y = Tensor::empty({count}, dtype_of<T>, device);
    k(kSeed, first, y);
    return y.to_vector<T>();
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Random, testing::ValuesIn(test::devices()), test::device_name);

/// Counter, key and words of "Parallel random numbers: as easy as 1, 2, 3", as its implementation
/// Random123 lists them.
TEST_P(Random, PhiloxHasTheKnownAnswers) {
  struct Known {
    std::uint64_t seed, counter, subsequence;
    Words words;
  };
  const Known all[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822,
       0x85a308d3243f6a88,
       0x0370734413198a2e,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  const auto k = kernel("words", [](In<u64, 1> in, Out<u32, 1> y) {
    for (auto i : grid(y, 4)) {
      const auto w = philox(in(0), in(1), in(2));
      const Tile at = i.indices();
      y(i) = where(at < 2, where(at == 0, w[0], w[1]), where(at == 2, w[2], w[3]));
    }
  });
  for (const Known& known : all) {
    const Tensor in = Tensor::from(std::vector<u64>{known.seed, known.counter, known.subsequence},
                                   GetParam()),
                 y = Tensor::empty({4}, DType::u32, GetParam());
    k(in, y);
    EXPECT_EQ(y.to_vector<u32>(), std::vector<u32>(known.words.begin(), known.words.end()));
    EXPECT_EQ(
        known.words,
        reference({static_cast<u32>(known.counter), static_cast<u32>(known.counter >> 32),
                   static_cast<u32>(known.subsequence), static_cast<u32>(known.subsequence >> 32)},
                  static_cast<u32>(known.seed), static_cast<u32>(known.seed >> 32)));
  }
}

TEST_P(Random, UniformNumbersAreTheWords) {
  const auto y = drawn<f32>([](const Tile& s, const Tile& o) { return rand(s, o); });
  const auto half = drawn<f16>([](const Tile& s, const Tile& o) { return rand<f16>(s, o); });
  const auto brain = drawn<bf16>([](const Tile& s, const Tile& o) { return rand<bf16>(s, o); });
  const auto wide = drawn<f64>([](const Tile& s, const Tile& o) { return rand<f64>(s, o); });
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint32_t w = word(kSeed, kFirst + i);
    ASSERT_EQ(y[i], std::ldexp(static_cast<float>(w >> 8), -24)) << i;
    ASSERT_EQ(static_cast<float>(half[i]), std::ldexp(static_cast<float>(w >> 21), -11)) << i;
    ASSERT_EQ(static_cast<float>(brain[i]), std::ldexp(static_cast<float>(w >> 24), -8)) << i;
    const std::uint64_t at = 2 * (kFirst + i);
    const std::uint64_t two = std::uint64_t{word(kSeed, at + 1)} << 32 | word(kSeed, at);
    ASSERT_EQ(wide[i], std::ldexp(static_cast<double>(two >> 11), -53)) << i;
  }
}

TEST_P(Random, IntegersAreScaledWords) {
  const auto y = drawn<i32>([](const Tile& s, const Tile& o) { return randint(s, o, -5, 12); });
  const auto all = drawn<i32>([](const Tile& s, const Tile& o) {
    return randint(s, o, std::numeric_limits<i32>::min(), std::numeric_limits<i32>::max());
  });
  const auto wide = drawn<i64>([](const Tile& s, const Tile& o) {
    return randint(s, o, std::int64_t{-1} << 40, std::int64_t{1} << 40);
  });
  const auto none = drawn<i32>([](const Tile& s, const Tile& o) { return randint(s, o, 7, 3); });
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t w = word(kSeed, kFirst + i);
    ASSERT_EQ(y[i], -5 + static_cast<int>(w * 17 >> 32)) << i;
    const auto low = std::int64_t{std::numeric_limits<i32>::min()};
    ASSERT_EQ(all[i], low + static_cast<std::int64_t>(w * 0xffffffff >> 32)) << i;
    const std::uint64_t at = 2 * (kFirst + i);
    const std::uint64_t two = std::uint64_t{word(kSeed, at + 1)} << 32 | word(kSeed, at);
    ASSERT_EQ(wide[i], (std::int64_t{-1} << 40) + static_cast<std::int64_t>(two >> (64 - 41))) << i;
    ASSERT_EQ(none[i], 7);
  }
}

TEST_P(Random, NormalNumbersAreThoseOfCpuAndOfTheFormula) {
  const auto draw = [](const Tile& s, const Tile& o) { return randn(s, o); };
  const auto y = drawn<f32>(draw), cpu = drawn<f32>(draw, kCount, kFirst, Device::cpu());
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(std::bit_cast<u32>(y[i]), std::bit_cast<u32>(cpu[i])) << i;
    const std::uint64_t offset = kFirst + i, pair = offset / 4 * 4 + offset % 4 / 2 * 2;
    // Near 1 the logarithm depends on the rounding of its argument.
    const float u = std::fma(static_cast<float>(word(kSeed, pair)), 0x1p-32f, 0x1p-33f);
    const double angle = 2 * std::numbers::pi * std::ldexp(word(kSeed, pair + 1) >> 8, -24);
    const double wanted = std::sqrt(-2 * std::log(static_cast<double>(u))) *
                          (offset % 2 == 0 ? std::cos(angle) : std::sin(angle));
    ASSERT_NEAR(y[i], wanted, 1e-6 * (1 + std::abs(wanted))) << i;
  }
}

TEST_P(Random, MomentsAndCells) {
  if (GetParam().kind == DeviceKind::sim) GTEST_SKIP() << "the bits are those of cpu";
  const std::int64_t count = GetParam().kind == DeviceKind::cpu ? 1 << 16 : 1 << 24;
  const auto n = static_cast<double>(count);
  const auto u = drawn<f32>([](const Tile& s, const Tile& o) { return rand(s, o); }, count, 0);
  std::vector<double> cells(256);
  double sum = 0;
  for (float v : u) {
    ++cells[static_cast<std::size_t>(v * 256)];
    sum += v;
  }
  double chi = 0;
  for (double c : cells) chi += (c - n / 256) * (c - n / 256) / (n / 256);
  EXPECT_NEAR(chi, 255, 5 * std::sqrt(2 * 255.0));
  EXPECT_NEAR(sum / n, 0.5, 5 / std::sqrt(12 * n));
  const auto z = drawn<f32>([](const Tile& s, const Tile& o) { return randn(s, o); }, count, 0);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (double v : z) {
    m1 += v, m2 += v * v, m3 += v * v * v, m4 += v * v * v * v;
  }
  EXPECT_NEAR(m1 / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(m2 / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(m3 / n, 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(m4 / n, 3, 5 * std::sqrt(96 / n));
}

TEST_P(Random, DropoutScalesKeptElements) {
  const auto y = drawn<f32>([](const Tile& s, const Tile& o) {
    return dropout(cast<f32>(o & 0xffu) + 1.0f, 0.25, s, o);
  });
  int kept = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const bool keeps = word(kSeed, kFirst + i) >> 8 >= (1u << 22);
    const float x = static_cast<float>((kFirst + i) & 0xff) + 1;
    ASSERT_EQ(y[i], keeps ? x * static_cast<float>(4.0 / 3) : 0.0f) << i;
    kept += keeps ? 1 : 0;
  }
  EXPECT_NEAR(kept, 0.75 * kCount, 5 * std::sqrt(kCount * 0.25 * 0.75));
}

/// Elements that the input lacks are stored nowhere, dropped or not.
TEST_P(Random, DropoutLeavesAbsentElementsAbsent) {
  const auto k = kernel("dropped", [](In<f32, 1> x, InOut<f32, 1> y) {
    for (auto i : grid(y, 64)) y(i) = dropout(x(i), 0.5, 7, i.indices());
  });
  const Tensor x = Tensor::uniform({50}, DType::f32, 1, 2, 1, GetParam()),
               y = Tensor::uniform({64}, DType::f32, 3, 4, 2, GetParam());
  const auto before = y.to_vector<f32>();
  k(x, y);
  const auto after = y.to_vector<f32>();
  for (std::size_t i = 0; i < after.size(); ++i)
    if (i < 50)
      ASSERT_NE(after[i], before[i]) << i;
    else
      ASSERT_EQ(after[i], before[i]) << i;
}

/// One seed per row, offsets along a row: operands broadcast like those of other functions.
TEST_P(Random, SeedsAndOffsetsAreBroadcast) {
  const auto k = kernel("rows", [](In<i32, 1> seeds, Out<f32, 2> y) {
    for (auto [r, c] : grid(y, 8, 32)) y(r, c) = rand(expand(seeds(r), 1), expand(c.indices(), 0));
  });
  const Tensor seeds = Tensor::iota({11}, DType::i32, GetParam()),
               y = Tensor::empty({11, 50}, DType::f32, GetParam());
  k(seeds, y);
  const auto out = y.to_vector<f32>();
  for (std::size_t r = 0; r < 11; ++r)
    for (std::size_t c = 0; c < 50; ++c)
      ASSERT_EQ(out[r * 50 + c], std::ldexp(static_cast<float>(word(r, c) >> 8), -24));
}

}  // namespace
}  // namespace tegula::random_test
