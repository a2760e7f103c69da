// Structs of parameters, on every device: members of all kinds, left out or given.
#include <gtest/gtest.h>

#include "devices.h"
#include "tegula/tegula.h"

namespace tegula::param_structs_test {
namespace {

struct Tensors {
  In<f32, 2> x;
  std::optional<In<f32, 1>> bias;
  Out<f32, 2> y;
};
struct Counts {
  Ptr<u32> words;
  Scalar<i32> at;
};
struct Call {
  Tensors tensors;
  int factor;
  Counts counts;
};

class ParamStructs : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, ParamStructs, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(ParamStructs, MembersAreParameters) {
  const auto k = kernel("affine", [](Scalar<f32> scale, const Call& c) {
    const auto& [x, bias, y] = c.tensors;
    for (auto [i, j] : grid(y, 16, 32)) {
      const Tile v = x(i, j) * scale * c.factor;
      y(i, j) = bias ? v + expand(Tile((*bias)(j)), 0) : v;
      atomic_add(c.counts.words + c.counts.at, 1);
    }
  });
  const Tensor x = Tensor::iota({40, 70}, DType::f32, GetParam()),
               bias = Tensor::full({70}, 5, DType::f32, GetParam()),
               y = Tensor::empty({40, 70}, DType::f32, GetParam()),
               words = Tensor::zeros({4}, DType::u32, GetParam());
  for (const bool has_bias : {true, false}) {
    k(0.5f, x, has_bias ? bias : Tensor(), y, 4, words, 2);
    const auto out = y.to_doubles();
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], 2.0 * static_cast<double>(i) + (has_bias ? 5 : 0)) << i;
  }
  EXPECT_EQ(words.to_doubles(), (std::vector<double>{0, 0, 2 * 3 * 3, 0}));
}

}  // namespace
}  // namespace tegula::param_structs_test
