// Quotients of tiles by a value per row or column have the bits of the host's division, for
// operands of all magnitudes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "devices.h"
#include "tegula/tegula.h"

namespace tegula::shared_division_test {
namespace {

constexpr std::int64_t kRows = 96, kColumns = 128;

/// A warp divides up to 16 rows. Their dividends are of all kinds, too small for the common path,
/// or such as a softmax has, with zeros; divisors are of all kinds, or in the range of that path.
enum class Numbers : std::uint8_t { any, tiny, usual };

float number(std::mt19937& random, Numbers kind) {
  constexpr float kSpecials[] = {0.0F, -0.0F, 1.0F, -1.0F, inf, -inf, nan, 1e-45F, 3.4e38F, 1e-38F};
  const std::uint32_t bits = random();
  const auto integer = static_cast<float>(bits | 1U);
  if (kind == Numbers::any && bits % 8 == 0) return kSpecials[bits / 8 % std::size(kSpecials)];
  if (kind == Numbers::any) return std::bit_cast<float>(bits);
  if (kind == Numbers::tiny) return std::ldexp(integer, static_cast<int>(bits % 26) - 157);
  return std::ldexp(integer, -static_cast<int>(bits % 90));
}
float dividend(std::mt19937& random, std::int64_t row) {
  const auto kind = static_cast<Numbers>(row / 16 % 3);
  return kind == Numbers::usual && random() % 16 == 0 ? 0.0F : number(random, kind);
}
float divisor(std::mt19937& random, std::int64_t row) {
  return number(random, row / 16 % 4 == 0 ? Numbers::any : Numbers::usual);
}

auto quotients(int axis) {
  return kernel("quotients", [axis](In<f32, 2> x, In<f32, 1> d, Out<f32, 2> y) {
    for (auto [m, n] : grid(y, 16, 128)) {
      const Tile divisors = axis == 1 ? expand(d(m), 1) : expand(d(n), 0);
      y(m, n) = x(m, n) / divisors;
    }
  });
}

class SharedDivision : public ::testing::TestWithParam<Device> {
 protected:
  static void expect_bits_of_host(int axis) {
    std::mt19937 random(axis);
    std::vector<float> x, d;
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) x.push_back(dividend(random, i / kColumns));
    for (std::int64_t i = 0; i < (axis == 1 ? kRows : kColumns); ++i)
      d.push_back(divisor(random, axis == 1 ? i : 16));
    const auto Y = Tensor::empty({kRows, kColumns}, DType::f32, GetParam());
    const auto count = static_cast<std::int64_t>(d.size());
    quotients(axis)(Tensor::from(x, {kRows, kColumns}, GetParam()),
                    Tensor::from(d, {count}, GetParam()), Y);
    const auto y = Y.to_vector<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float by = d[axis == 1 ? i / kColumns : i % kColumns], want = x[i] / by;
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(y[i])) << x[i] << " / " << by;
        continue;
      }
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(want))
          << x[i] << " / " << by << " is " << want << ", not " << y[i];
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, SharedDivision, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(SharedDivision, OfRowsHasTheBitsOfTheHost) { expect_bits_of_host(1); }
TEST_P(SharedDivision, OfColumnsHasTheBitsOfTheHost) { expect_bits_of_host(0); }

/// Elements that a masked load leaves out are divided and not stored.
TEST_P(SharedDivision, DividesUndefinedElements) {
  const auto k = kernel("masked_quotients", [](Ptr<f32> x, In<f32, 1> d, Ptr<f32> y) {
    for (auto m : grid(d, 16)) {
      const Tile at = expand(m, 1) * 64 + expand(slice(0, 64), 0), keeps = at % 3 != 0;
      store(y + at, load(x + at, keeps) / expand(d(m), 1), keeps);
    }
  });
  const Tensor x = Tensor::full({16 * 64}, 6, DType::f32, GetParam()),
               d = Tensor::full({16}, 4, DType::f32, GetParam()),
               y = Tensor::zeros({16 * 64}, DType::f32, GetParam());
  k(x, d, y);
  const auto out = y.to_vector<float>();
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], i % 3 == 0 ? 0 : 1.5) << i;
}

}  // namespace
}  // namespace tegula::shared_division_test
