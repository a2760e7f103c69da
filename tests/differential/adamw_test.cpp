// AdamW on every available device.
#include "tests/differential/adamw_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test::adamw_test {
namespace {

class AdamWSteps : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, AdamWSteps, testing::ValuesIn(devices()), device_name);

TEST_P(AdamWSteps, ManyTensors) { check_adamw(GetParam()); }
TEST_P(AdamWSteps, RoundStochastically) { check_adamw_stochastic(GetParam()); }
TEST_P(AdamWSteps, NoTensors) {
  AdamW(std::span<const AdamWTensors>()).step(Stream(GetParam()), 1);
}

}  // namespace
}  // namespace tegula::test::adamw_test
