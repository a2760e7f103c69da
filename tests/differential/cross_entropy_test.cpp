// Cross entropy on every available device.
#include "tests/differential/cross_entropy_checks.h"

#include "tests/differential/devices.h"
#include "tests/differential/linear_cross_entropy_checks.h"

namespace tegula::test::cross_entropy_test {
namespace {

class CrossEntropies : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropies, testing::ValuesIn(devices()), device_name);

TEST_P(CrossEntropies, AndTheirGradients) { check_cross_entropies(GetParam()); }

TEST_P(CrossEntropies, WithTheLinearLayer) { check_linear_cross_entropies(GetParam()); }

/// Labels that are not classes, a NaN among the logits, and a class of probability 0.
TEST_P(CrossEntropies, NoNumbers) {
  const Device device = GetParam();
  Doubles logits = Tensor::normal({7, 50}, DType::f32, 0, 1, 1, Device::cpu()).to_doubles();
  logits[3] = std::nan(""), logits[2 * 50 + 7] = -INFINITY;
  for (const auto& [dtype, far] :
       {std::pair{DType::i32, std::int64_t{0x7fffffff}}, {DType::i64, std::int64_t{1} << 40}}) {
    const Doubles labels{1, 50, 2, 0, -1, static_cast<double>(far), static_cast<double>(-far)};
    const CrossEntropyOptions plain, smoothed{.label_smoothing = 0.1f, .z_loss = 1e-3f};
    for (const CrossEntropyOptions& options : {plain, smoothed})
      check_cross_entropy(Tensor::from(logits, {7, 50}, Device::cpu()).cast(DType::f32).to(device),
                          Tensor::from(labels, {7}, Device::cpu()).cast(dtype).to(device), options,
                          true);
  }
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
}  // namespace tegula::test::cross_entropy_test
