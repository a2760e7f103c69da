// Reductions over a loop: each thread adds up its share, and the threads are reduced after the
// loop.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::late_sums_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::int64_t kRows = 8;

EnvOverride without_deferred_reductions() {
  Env changed = env();
  changed.plan = "defer_cross_lane_reductions=0";
  return EnvOverride(changed);
}

class DeferReductions : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, DeferReductions, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Elements are integers, so that all sums are exact; an iteration's elements are spread over a
/// warp's lanes, or over several warps.
TEST_P(DeferReductions, BeginWithNumbers) {
  const auto folds_in_steps_of = [](int step) {
    return kernel("folds", [step](In<f32, 2> X, In<f32, 1> Begin, Out<f32, 1> Sum,
                                  Out<f32, 1> Squares, Out<f32, 1> Most) {
      for (auto m : grid(rows(X), 4)) {
        Tile sum = fill_absent(Begin(m), 0), squares = sum, most = sum;
        for (auto n : steps(X.cols(), step)) {
          const Tile x = X(m, n);
          sum = sum + tegula::sum(x, 1);
          squares = 0.5f * squares + tegula::sum(x * x, 1);
          most = max(most, max(x, axis(1)));
        }
        Sum(m) = sum, Squares(m) = squares, Most(m) = most;
      }
    });
  };
  for (const int step : {64, 2048}) {
    const auto folds = folds_in_steps_of(step);
    for (const std::int64_t columns : {0, 50, 128, 5000}) {
      SCOPED_TRACE(testing::Message() << columns << " columns in steps of " << step);
      const Tensor X = Tensor::integers({kRows, columns}, DType::f32, -9, 10, 1, GetParam()),
                   Begin = Tensor::integers({kRows}, DType::f32, -5, 60, 2, GetParam());
      const auto result = [] { return Tensor::zeros({kRows}, DType::f32, GetParam()); };
      const Tensor Sum = result(), Squares = result(), Most = result();
      folds(Stream(GetParam()), X, Begin, Sum, Squares, Most);
      const auto x = X.to_doubles(), begin = Begin.to_doubles();
      for (std::size_t r = 0; r < kRows; ++r) {
        double sum = begin[r], squares = sum, most = sum;
        for (std::int64_t n = 0; n < columns; n += step) {
          squares *= 0.5;
          for (std::int64_t i = n; i < std::min(n + step, columns); ++i) {
            const double v = x[r * static_cast<std::size_t>(columns) + static_cast<std::size_t>(i)];
            sum += v, squares += v * v, most = std::max(most, v);
          }
        }
        ASSERT_EQ(Sum.to_doubles()[r], sum) << r;
        ASSERT_NEAR(Squares.to_doubles()[r], squares, std::abs(squares) * 1e-6) << r;
        ASSERT_EQ(Most.to_doubles()[r], most) << r;
      }
    }
  }
}

/// Online softmax's sums, and rows of any numbers there are: of the same class as in every step.
TEST_P(DeferReductions, ClassesOfNumbers) {
  const auto trace = [] {
    return kernel("weights", [](In<f32, 2> X, Out<f32, 1> Plain, Out<f32, 1> Sum) {
      for (auto m : grid(rows(X), kRows)) {
        Tile plain = zeros<f32>(kRows), sum = plain, top = full<f32>(-1e30f, kRows);
        for (auto n : steps(X.cols(), 64)) {
          const Tile x = fill_absent(X(m, n), -INFINITY);
          const Tile now = max(top, max(x, axis(1)));
          plain = plain + tegula::sum(x, 1);
          sum = fma(sum, exp2(top - now), tegula::sum(exp2(x - expand(now, 1)), 1));
          top = now;
        }
        Plain(m) = plain, Sum(m) = sum;
      }
    });
  };
  const float nan = std::nanf("");
  std::vector<float> x(kRows * 192);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 64) / 8;
  const auto put = [&](std::size_t row, std::initializer_list<std::pair<int, float>> values) {
    for (const auto& [column, v] : values) x[row * 192 + static_cast<std::size_t>(column)] = v;
  };
  put(1, {{3, kInf}, {70, kInf}});
  put(2, {{3, kInf}, {69, -kInf}});
  put(3, {{100, nan}});
  put(4, {{0, -kInf}, {190, -kInf}});
  std::fill(x.begin() + 5 * 192, x.begin() + 6 * 192, -kInf);
  put(6, {{0, 300}, {64, 0}, {130, 700}});  // weights of all before become 0
  put(7, {{64, 3e38f}, {65, 3e38f}});
  const Tensor X = Tensor::from(x, {kRows, 192}, GetParam());
  const auto results = [&] {
    const Tensor Plain = Tensor::zeros({kRows}, DType::f32, GetParam()), Sum = Plain.clone();
    trace()(Stream(GetParam()), X, Plain, Sum);
    auto all = Plain.to_doubles();
    const auto sum = Sum.to_doubles();
    all.insert(all.end(), sum.begin(), sum.end());
    return all;
  };
  const auto late = results();
  const EnvOverride scope = without_deferred_reductions();
  const auto every_step = results();
  for (std::size_t i = 0; i < late.size(); ++i) {
    SCOPED_TRACE(i);
    if (std::isnan(every_step[i]))
      EXPECT_TRUE(std::isnan(late[i])) << late[i];
    else if (std::isinf(every_step[i]))
      EXPECT_EQ(late[i], every_step[i]);
    else
      EXPECT_NEAR(late[i], every_step[i], std::abs(every_step[i]) * 1e-6);
  }
}

/// In parts, 0 times it would be NaN in lanes that begin with nothing.
TEST_P(DeferReductions, InfiniteFactors) {
  const auto scaled = kernel("scaled", [](In<f32, 2> X, Out<f32, 1> Sum) {
    for (auto m : grid(rows(X), kRows)) {
      Tile sum = full<f32>(1, kRows);
      for (auto n : steps(X.cols(), 64)) {
        const Tile x = X(m, n);
        sum = fma(sum, max(x, axis(1)), tegula::sum(x, 1));
      }
      Sum(m) = sum;
    }
  });
  std::vector<float> x(kRows * 128, 1);
  for (std::size_t r = 0; r < kRows; ++r) x[r * 128 + r] = kInf;
  const Tensor X = Tensor::from(x, {kRows, 128}, GetParam()),
               Sum = Tensor::zeros({kRows}, DType::f32, GetParam());
  scaled(Stream(GetParam()), X, Sum);
  for (const double v : Sum.to_doubles()) EXPECT_EQ(v, kInf);
}

}  // namespace
}  // namespace tegula::late_sums_test
