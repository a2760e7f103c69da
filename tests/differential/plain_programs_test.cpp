// Programs that any user may write first, and that once were refused.
#include <gtest/gtest.h>

#include "devices.h"
#include "tegula/tegula.h"

namespace tegula::plain_programs_test {
namespace {

class PlainPrograms : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, PlainPrograms, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(PlainPrograms, TheExtentMayBeReadBeforeTheRow) {
  for (const std::int64_t n : {100, 128, 4096}) {
    const auto mean = kernel("mean", [](In<f32, 2> x, Out<f32, 1> y) {
      for (auto r : grid(y, 1)) {
        const Tile count = cast<f32>(x.cols());
        y(r) = sum(x(r, all)) / count;
      }
    });
    const Tensor y = Tensor::empty({3}, DType::f32, GetParam());
    mean(Tensor::full({3, n}, 2, DType::f32, GetParam()), y);
    EXPECT_EQ(y.to_doubles(), std::vector<double>(3, 2)) << n;
    // And with another extent, by the same kernel.
    mean(Tensor::full({3, 64}, 2, DType::f32, GetParam()), y);
    EXPECT_EQ(y.to_doubles(), std::vector<double>(3, 2)) << n;
  }
}

TEST_P(PlainPrograms, TheSquareOfATile) {
  const auto k = kernel("square", [](In<f32, 2> x, Out<f32, 2> y) {
    for (auto [i, j] : grid(y, 16, 16)) {
      const Tile t = x(i, j);
      y(i, j) = dot(t, t);
    }
  });
  const Tensor x = Tensor::integers({16, 16}, DType::f32, -3, 4, 1, GetParam()),
               y = Tensor::empty({16, 16}, DType::f32, GetParam());
  k(x, y);
  const auto in = x.to_doubles(), out = y.to_doubles();
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j) {
      double want = 0;
      for (std::size_t n = 0; n < 16; ++n) want += in[i * 16 + n] * in[n * 16 + j];
      ASSERT_EQ(out[i * 16 + j], want) << i << " " << j;
    }
}

/// A tile of which a thread loads 128 registers for an addition is loaded and added in chunks.
TEST_P(PlainPrograms, ANumberIsAddedToALargeTile) {
  const auto shift = kernel("shift", [](In<f32, 2> x, Scalar<f32> by, Out<f32, 2> y) {
                       for (auto [i, j] : grid(y, 64, 64)) y(i, j) = x(i, j) + by;
                     }).with_plan({.num_warps = 1});
  const Tensor x = Tensor::integers({70, 96}, DType::f32, -9, 9, 1, GetParam()),
               y = Tensor::empty({70, 96}, DType::f32, GetParam());
  shift(x, 3.0f, y);
  const auto in = x.to_doubles(), out = y.to_doubles();
  for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], in[i] + 3) << i;
}

}  // namespace
}  // namespace tegula::plain_programs_test
