// Rotary position embedding on every available device.
#include "tests/differential/rope_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test::rope_test {
namespace {

class Ropes : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Ropes, testing::ValuesIn(devices()), device_name);

TEST_P(Ropes, AndTheirGradients) { check_ropes(GetParam()); }

/// Heads that are columns of a wider tensor, as those of a fused projection.
TEST_P(Ropes, HeadsInsideAWiderTensor) {
  const Device device = GetParam();
  const RopeCase c{6, 4, 64, 64};
  const Tensor wide = random_rows({6, 12, 64}, DType::bf16, 1, device), x = wide.slice(1, 4, 8),
               y = unwritten_rows({6, 4, 64}, DType::bf16, device);
  const RopeTables tables{.cos = Tensor::uniform({6, 32}, DType::f32, -1, 1, 7, device),
                          .sin = Tensor::uniform({6, 32}, DType::f32, -1, 1, 8, device)};
  rope(Stream(device), c.pairs, x, tables, y);
  expect_elements(y, rotated_by(c, x.to_doubles(), tables, 1), 2);
}

}  // namespace
}  // namespace tegula::test::rope_test
