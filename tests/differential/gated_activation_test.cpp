// Gated activations on every available device.
#include "tests/differential/gated_activation_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test::gated_activation_test {
namespace {

class GatedActivations : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, GatedActivations, testing::ValuesIn(devices()), device_name);

TEST_P(GatedActivations, AndTheirGradients) { check_gated_activations(GetParam()); }

TEST_P(GatedActivations, NumbersOfAnySize) { check_gated_extremes(GetParam()); }

/// NaN and infinities stay where they are.
TEST_P(GatedActivations, NoNumbers) {
  const Doubles values{1, std::nan(""), INFINITY, 40, -40, 2};
  const Tensor gate = Tensor::from(values, {1, 6}, Device::cpu()).cast(DType::f32).to(GetParam()),
               up = Tensor::full({1, 6}, 2, DType::f32, GetParam()),
               y = unwritten_rows({1, 6}, DType::f32, GetParam());
  for (const GateActivation activation :
       {GateActivation::silu, GateActivation::gelu, GateActivation::gelu_tanh}) {
    gated_activation(Stream(GetParam()), activation, gate, up, y);
    Doubles want;
    for (const double x : values) want.push_back(2 * activation_of(activation, x));
    expect_elements(y, want);
  }
}

}  // namespace
}  // namespace tegula::test::gated_activation_test
