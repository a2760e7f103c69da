// Extremes of negated integers, which ptxas before 13.4 computes of the numbers themselves if they
// come as plain PTX (ptx::int_neg).
#include <gtest/gtest.h>

#include <algorithm>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::negations_test {
namespace {

class Negations : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Negations, testing::ValuesIn(test::devices()), test::device_name);

/// 0, 7919, ... modulo 199, around 0.
template <class T>
std::vector<T> numbers(std::int64_t n, int seed) {
  std::vector<T> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(static_cast<T>((i + seed) * 7919 % 199 - 99));
  return v;
}

template <class T>
void expect_extremes(Device device) {
  constexpr std::int64_t kNumbers = 1000;
  const auto extremes = kernel("extremes", [](In<T, 1> a, In<T, 1> b, In<T, 1> c, Out<T, 2> out) {
    for (auto i : grid(a, 256)) {
      const Tile x = a(i), y = b(i), z = c(i);
      out(0, i) = max(max(x, -y), z);
      out(1, i) = min(z, min(x, -y));
      out(2, i) = max(max(x, y * -4), z);
      out(3, i) = max(max(x, x - (x + y)), z);
      out(4, i) = cast<T>(-x <= 3 && y <= 3 && -z <= 3);
    }
  });
  const auto x = numbers<T>(kNumbers, 1), y = numbers<T>(kNumbers, 5), z = numbers<T>(kNumbers, 77);
  const Tensor out = Tensor::empty({5, kNumbers}, dtype_of<T>, device);
  extremes(Tensor::from(x, device), Tensor::from(y, device), Tensor::from(z, device), out);
  const auto got = out.to_vector<T>();
  for (std::size_t i = 0; i < kNumbers; ++i) {
    const int a = x[i], b = y[i], c = z[i];
    const auto row = [&](std::size_t r) -> int { return got[r * kNumbers + i]; };
    ASSERT_EQ(row(0), std::max({a, -b, c})) << i;
    ASSERT_EQ(row(1), std::min({a, -b, c})) << i;
    ASSERT_EQ(row(2), std::max({a, -4 * b, c})) << i;
    ASSERT_EQ(row(3), std::max({a, -b, c})) << i;
    ASSERT_EQ(row(4), -a <= 3 && b <= 3 && -c <= 3) << i;
  }
}

TEST_P(Negations, WordsKeepTheirSign) { expect_extremes<i32>(GetParam()); }
TEST_P(Negations, HalvesKeepTheirSign) { expect_extremes<i16>(GetParam()); }

TEST_P(Negations, AreReduced) {
  const auto smallest = kernel("smallest", [](In<i32, 2> x, Out<i32, 1> y) {
    for (auto r : grid(rows(x), 1)) y(r) = max(-x(r, all));
  });
  const auto v = numbers<i32>(4 * 600, 3);
  const Tensor x = Tensor::from(v, GetParam()).reshape({4, 600}),
               y = Tensor::empty({4}, DType::i32, GetParam());
  smallest(x, y);
  const auto got = y.to_vector<i32>();
  for (std::ptrdiff_t r = 0; r < 4; ++r)
    EXPECT_EQ(got[static_cast<std::size_t>(r)],
              -*std::min_element(v.begin() + 600 * r, v.begin() + 600 * (r + 1)));
}

}  // namespace
}  // namespace tegula::negations_test
