// RMS norm and layer norm on every available device.
#include "tests/differential/devices.h"
#include "tests/differential/norm_checks.h"

namespace tegula::test::norm_test {
namespace {

class Norms : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Norms, testing::ValuesIn(devices()), device_name);

TEST_P(Norms, RmsNormAndItsGradients) { check_norms(GetParam(), false); }
TEST_P(Norms, LayerNormAndItsGradients) { check_norms(GetParam(), true); }
TEST_P(Norms, RowsWithoutNumbers) {
  for (const std::int64_t columns : {64, 3000}) check_norm_of_no_numbers(GetParam(), columns);
}

/// Rows far from 0, held and streamed: squares minus the square of the mean would lose all bits.
TEST_P(Norms, VarianceOfRowsFarFromZero) {
  for (const std::int64_t columns : {500, 40000}) {
    const Device device = GetParam();
    const Tensor x = Tensor::normal({2, columns}, DType::f32, 4096, 0.25, 7, device),
                 y = unwritten_rows({2, columns}, DType::f32, device);
    layer_norm(Stream(device), x, {}, {}, y);
    const NormCase c{.rows = 2, .columns = columns, .is_centred = true};
    NormReference want{c, 1e-5, x.to_doubles(), {}, {}, {}, {}, {}};
    want.forward();
    expect_elements(y, want.y, 1, 1000);
  }
}

TEST_P(Norms, GradientsAreTheSameBitsEachTime) {
  const Device device = GetParam();
  const Tensor x = random_rows({300, 96}, DType::f32, 1, device),
               dy = random_rows({300, 96}, DType::f32, 2, device),
               rstd = Tensor::full({300}, 0.7, DType::f32, device);
  Doubles first;
  for (int run = 0; run < 3; ++run) {
    const Tensor dx = unwritten_rows({300, 96}, DType::f32, device),
                 dw = unwritten_rows({96}, DType::f32, device);
    rms_norm_backward(Stream(device), {.x = x, .rstd = rstd}, dy, {.x = dx, .weight = dw});
    if (run == 0) first = dw.to_doubles();
    EXPECT_EQ(dw.to_doubles(), first);
  }
}

}  // namespace
}  // namespace tegula::test::norm_test
