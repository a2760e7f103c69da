// Views of rank 0: one element, read as `x()` and stored by `y() = v`, on every device.
#include <gtest/gtest.h>

#include "devices.h"
#include "tegula/tegula.h"

namespace tegula::rank_zero_test {
namespace {

class RankZero : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, RankZero, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(RankZero, ASumIsStored) {
  const auto k = kernel("total", [](In<f32, 1> x, Out<f32, 0> y) {
    for ([[maybe_unused]] auto p : grid({1}, 1)) y() = sum(x(all));
  });
  const Tensor y = Tensor::empty({}, DType::f32, GetParam());
  k(Tensor::iota({10}, DType::f32, GetParam()), y);
  EXPECT_EQ(y.to_doubles(), std::vector<double>{45});
}

TEST_P(RankZero, AnElementScalesATile) {
  const auto k = kernel("scaled", [](In<f32, 1> x, In<f32, 0> by, Out<f32, 1> y) {
    for (auto i : grid(y, 64)) y(i) = x(i) * by();
  });
  const Tensor y = Tensor::empty({100}, DType::f32, GetParam());
  k(Tensor::iota({100}, DType::f32, GetParam()), Tensor::full({}, 3, DType::f32, GetParam()), y);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(y.to_doubles()[static_cast<std::size_t>(i)], 3 * i);
}

TEST_P(RankZero, AnElementIsReadAndWritten) {
  const auto k = kernel("next", [](InOut<i64, 0> y) {
    for ([[maybe_unused]] auto p : grid({1}, 1)) {
      y() += 1;
      y() = y() * 2;
    }
  });
  const Tensor y = Tensor::full({}, 20, DType::i64, GetParam());
  k(y);
  EXPECT_EQ(y.to_doubles(), std::vector<double>{42});
}

TEST_P(RankZero, ProgramsCountInOneElement) {
  const auto k = kernel("count", [](InOut<i32, 0> n, Out<i32, 1> y) {
    for (auto i : grid(y, 16)) {
      atomic_add(n(), 1);
      y(i) = i.indices() >= 0;
    }
  });
  const Tensor n = Tensor::zeros({}, DType::i32, GetParam());
  k(n, Tensor::empty({100}, DType::i32, GetParam()));
  EXPECT_EQ(n.to_doubles(), std::vector<double>{7});
}

TEST_P(RankZero, OldValuesOfAnElement) {
  const auto k = kernel("take", [](InOut<i32, 0> n, Out<i32, 1> y) {
    for (auto i : grid(y, 1)) y(i) = atomic_add(n(), 2);
  });
  const Tensor n = Tensor::full({}, 5, DType::i32, GetParam()),
               y = Tensor::empty({1}, DType::i32, GetParam());
  k(n, y);
  EXPECT_EQ(n.to_doubles(), std::vector<double>{7});
  EXPECT_EQ(y.to_doubles(), std::vector<double>{5});
}

}  // namespace
}  // namespace tegula::rank_zero_test
