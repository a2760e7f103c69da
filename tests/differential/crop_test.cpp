// Parts of tensors whose ends only the kernel knows: crop() leaves the rest absent, on every
// device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tegula/tegula.h"

namespace tegula::crop_test {
namespace {

class Crop : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Crop, testing::Values(Device::cpu(), Device::sim()),
                         [](const auto& info) {
                           return std::string(info.param.kind == DeviceKind::cpu ? "cpu" : "sim");
                         });

/// The rows of each group, doubled; and the sums of the group's columns. Groups are consecutive.
auto group_sums() {
  return kernel("group_sums", [](In<f32, 2> x, In<i32, 1> starts, Scalar<i32> longest,
                                 Out<f32, 2> twice, Out<f32, 3> sums) {
    twice.partial();  // rows after the last group stay
    for (auto [g, m] : grid(GridSpace({starts.dim(0) - 1, longest}), 1, 32)) {
      const Tile first = fill_absent(starts(g), 0), end = fill_absent(starts(g + 1), 0);
      const Index rows = m.shifted(first);
      const Tile part = crop(x(rows, slice(0, 8)), 0, rows.first(), end);
      twice(rows, slice(0, 8)) = part * 2.0f;
      sums(g, m.first() / 32, slice(0, 8)) = sum(part, 0);
    }
  });
}

TEST_P(Crop, StoresAndSumsStopAtTheGroupsEnd) {
  const std::vector<i32> starts{0, 5, 5, 47, 112, 120};
  const std::int64_t rows = 131, groups = 5, blocks = 3;
  const Tensor x = Tensor::integers({rows, 7}, DType::f32, -9, 9, 1, GetParam()),
               twice = Tensor::full({rows, 7}, 1000, DType::f32, GetParam()),
               sums = Tensor::empty({groups, blocks, 7}, DType::f32, GetParam());
  group_sums()(x, Tensor::from(starts, GetParam()), 65, twice, sums);
  const auto in = x.to_doubles(), out = twice.to_doubles(), s = sums.to_doubles();
  for (std::int64_t i = 0; i < rows * 7; ++i)
    ASSERT_EQ(out[i], i / 7 < starts.back() ? 2 * in[i] : 1000) << i / 7;
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t block = 0; block < blocks; ++block)
      for (int c = 0; c < 7; ++c) {
        double want = 0;
        const std::int64_t first = starts[g] + block * 32;
        for (std::int64_t r = first; r < std::min<std::int64_t>(first + 32, starts[g + 1]); ++r)
          want += in[r * 7 + c];
        ASSERT_EQ(s[(g * blocks + block) * 7 + c], want) << g << " " << block << " " << c;
      }
}

/// For each group, the product of its rows of `a`, transposed, and of `b`.
auto group_products() {
  return kernel(
      "group_products", [](In<bf16, 2> a, In<bf16, 2> b, In<i32, 1> starts, Out<f32, 3> products) {
        for (auto g : grid(GridSpace(starts.dim(0) - 1), 1)) {
          const Tile first = fill_absent(starts(g), 0), end = fill_absent(starts(g.first() + 1), 0);
          const Index all = slice(0, 64);
          Tile sum = zeros<f32>(64, 64);
          for (auto k : steps(max(end - first, 0), 64)) {
            const Index rows = k.shifted(first);
            assume(rows.first() >= 0);
            const Tile x = fill_absent(crop(a(rows, all), 0, rows.first(), end), 0),
                       y = fill_absent(crop(b(rows, all), 0, rows.first(), end), 0);
            sum = dot(x.T(), y, sum);
          }
          products(g, all, all) = sum;
        }
      });
}

/// TMA ends the boxes: rows of the next group and rows after the last one, all NaN, are not read.
TEST_P(Crop, ProductsStopAtTheGroupsEnd) {
  const std::vector<i32> starts{0, 5, 70, 70, 230};
  const auto values = [&](std::uint64_t seed) {
    const Tensor t = Tensor::integers({300, 64}, DType::bf16, -3, 3, seed, GetParam());
    t.slice(0, 5, 70).fill(NAN);
    t.slice(0, 230, 300).fill(NAN);
    return t;
  };
  const Tensor a = values(1), b = values(2),
               products = Tensor::full({4, 64, 64}, 1000, DType::f32, GetParam());
  const auto product = group_products();
  product(a, b, Tensor::from(starts, GetParam()), products);
  const auto x = a.to_doubles(), y = b.to_doubles(), out = products.to_doubles();
  for (const std::size_t g : {0, 2, 3})
    for (std::size_t i = 0; i < 64 * 64; ++i) {
      double want = 0;
      for (auto r = static_cast<std::size_t>(starts[g]);
           r < static_cast<std::size_t>(starts[g + 1]); ++r)
        want += x[r * 64 + i / 64] * y[r * 64 + i % 64];
      ASSERT_EQ(out[g * 64 * 64 + i], want) << g << " " << i;
    }
  if (GetParam().kind == DeviceKind::sim) {
    EXPECT_NE(product.dump("optimize").find("order = [1, 0, 0]"), std::string::npos);
  }
}

}  // namespace
}  // namespace tegula::crop_test
