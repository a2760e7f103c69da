// Means, variances, sums of exponentials and folds of bits, of ragged rows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::statistics_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Statistics : public test::OnDevice {
 protected:
  static void expect_near(const Tensor& y, const std::vector<double>& want, double tolerance) {
    const auto got = y.to_doubles();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      if (std::isnan(want[i]) || std::isinf(want[i]))
        EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i])
            << i << " " << got[i];
      else
        EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << i;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Statistics, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(Statistics, MeanAndVarianceOfRaggedRows) {
  const auto k = kernel("rows", [](In<f32, 2> x, Out<f32, 1> m, Out<f32, 1> v, Out<f32, 1> one) {
    for (auto r : grid(m, 4)) {
      const Tile t = x(r, slice(0, 128));
      m(r) = mean(t, 1);
      v(r) = var(t, 1, 1);
      one(r) = mean(crop(t, 1, 0, 0), 1);
    }
  });
  for (std::int64_t n : {1, 2, 77, 128}) {
    SCOPED_TRACE(n);
    // A mean that is large next to the differences.
    const Tensor x = Tensor::uniform({6, n}, DType::f32, 1000, 1001, 3, GetParam());
    const Tensor m = empty({6}, DType::f32), v = empty({6}, DType::f32), e = empty({6}, DType::f32);
    k(stream(), x, m, v, e);
    const auto in = x.to_doubles();
    std::vector<double> means, variances;
    for (std::size_t row = 0; row < 6; ++row) {
      double sum = 0, m2 = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += in[row * n + i];
      for (std::int64_t i = 0; i < n; ++i) m2 += std::pow(in[row * n + i] - sum / n, 2);
      means.push_back(sum / static_cast<double>(n));
      variances.push_back(n == 1 ? kNan : m2 / static_cast<double>(n - 1));
    }
    expect_near(m, means, 1e-6);
    expect_near(v, variances, 1e-4);
    expect_near(e, std::vector<double>(6, kNan), 0);
  }
}

TEST_P(Statistics, MomentsOfPartsMerge) {
  const auto k = kernel("streamed", [](In<f32, 2> x, Out<f32, 2> y) {
    for (auto r : grid(rows(y), 2)) {
      Tile count = zeros<f32>(2), mean = zeros<f32>(2), m2 = zeros<f32>(2);
      for (auto j : steps(x.cols(), 64)) {
        const Moments more = merge({count, mean, m2}, moments(x(r, j), 1));
        count = more.count, mean = more.mean, m2 = more.m2;
      }
      y(r, 0) = count;
      y(r, 1) = mean;
      y(r, 2) = Moments{count, mean, m2}.var();
    }
  });
  const Tensor x = Tensor::uniform({2, 300}, DType::f32, 100, 101, 9, GetParam());
  const Tensor y = empty({2, 3}, DType::f32);
  k(stream(), x, y);
  const auto in = x.to_doubles();
  std::vector<double> want;
  for (std::size_t row = 0; row < 2; ++row) {
    double sum = 0, m2 = 0;
    for (std::size_t i = 0; i < 300; ++i) sum += in[row * 300 + i];
    for (std::size_t i = 0; i < 300; ++i) m2 += std::pow(in[row * 300 + i] - sum / 300, 2);
    want.insert(want.end(), {300, sum / 300, m2 / 300});
  }
  expect_near(y, want, 1e-5);
}

TEST_P(Statistics, LogSumExpOfSpecialRows) {
  const auto k = kernel("rows", [](In<f32, 2> x, Out<f32, 1> y) {
    for (auto r : grid(y, 8)) y(r) = logsumexp(x(r, slice(0, 16)), 1);
  });
  const auto inf = static_cast<float>(kInf), nan = static_cast<float>(kNan);
  const std::vector<float> x{0,    0,    0,     // log 3
                             1000, 1000, 0,     // no overflow
                             -inf, -inf, -inf,  //
                             inf,  1,    -inf,  //
                             nan,  1,    2,     //
                             -inf, 5,    -inf};
  const Tensor y = empty({6}, DType::f32);
  k(stream(), Tensor::from(x, {6, 3}, GetParam()), y);
  expect_near(y, {std::log(3.0), 1000 + std::log(2.0), -kInf, kInf, kNan, 5}, 1e-6);
}

TEST_P(Statistics, FoldsOfBits) {
  const auto k = kernel("bits", [](In<i32, 2> x, Out<i32, 2> y) {
    for (auto r : grid(rows(y), 3)) {
      const Tile t = x(r, slice(0, 100));
      y(r, 0) = xor_sum(t, 1);
      y(r, 1) = bit_or(t, 1);
      y(r, 2) = bit_and(t, 1);
      y(r, 3) = cast<i32>(all(t > 0, 1));
    }
  });
  const Tensor x = Tensor::integers({3, 90}, DType::i32, 1, 1 << 20, 2, GetParam());
  const Tensor y = empty({3, 4}, DType::i32);
  k(stream(), x, y);
  const auto in = x.to_doubles();
  std::vector<double> want;
  for (std::size_t row = 0; row < 3; ++row) {
    std::int32_t x_or = 0, x_xor = 0, x_and = -1;
    for (std::size_t i = 0; i < 90; ++i) {
      const auto v = static_cast<std::int32_t>(in[row * 90 + i]);
      x_or |= v, x_xor ^= v, x_and &= v;
    }
    for (int v : {x_xor, x_or, x_and, 1}) want.push_back(v);
  }
  test::expect_equal(y, want);
}

}  // namespace
}  // namespace tegula::statistics_test
