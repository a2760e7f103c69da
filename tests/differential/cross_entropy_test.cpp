// Cross entropy on every device that is here.
#include "tests/differential/cross_entropy_checks.h"

#include "tests/differential/devices.h"
#include "tests/differential/linear_cross_entropy_checks.h"

namespace tegula::test {
namespace {

class CrossEntropies : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropies, testing::ValuesIn(devices()), device_name);

TEST_P(CrossEntropies, AndTheirGradients) { check_cross_entropies(GetParam()); }

TEST_P(CrossEntropies, WithTheLinearLayer) { check_linear_cross_entropies(GetParam()); }

/// A label that is no class, a NaN among the logits, and a class of probability 0.
TEST_P(CrossEntropies, OfNoNumbers) {
  const Device device = GetParam();
  Doubles logits = Tensor::normal({4, 50}, DType::f32, 0, 1, 1, Device::cpu()).to_doubles();
  logits[3] = std::nan(""), logits[2 * 50 + 7] = -INFINITY;
  const Doubles labels{1, 50, 2, 0};
  check_cross_entropy(Tensor::from(logits, {4, 50}, Device::cpu()).cast(DType::f32).to(device),
                      Tensor::from(labels, {4}, Device::cpu()).cast(DType::i32).to(device), {},
                      true);
}

/// A row that does not count has a gradient of 0, whatever its logits are.
TEST_P(CrossEntropies, IgnoredRowsOfNaN) {
  const Device device = GetParam();
  const Tensor logits = Tensor::full({2, 20}, std::nan(""), DType::f32, device),
               labels = Tensor::full({2}, 7, DType::i32, device),
               none = Tensor::full({2}, 1, DType::f32, device),
               loss = unwritten_rows({2}, DType::f32, device),
               lse = unwritten_rows({2}, DType::f32, device),
               dlogits = unwritten_rows({2, 20}, DType::f32, device);
  cross_entropy(Stream(device), logits, labels, loss, lse, {.ignore_index = 7});
  cross_entropy_backward(Stream(device), logits, labels, lse, none, dlogits, {.ignore_index = 7});
  EXPECT_EQ(loss.to_doubles(), Doubles(2, 0));
  EXPECT_EQ(dlogits.to_doubles(), Doubles(40, 0));
}

}  // namespace
}  // namespace tegula::test
