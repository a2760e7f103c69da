// Quantisation to 8-bit floats on every available device.
#include "tests/differential/devices.h"
#include "tests/differential/quantise_checks.h"

namespace tegula::test::quantise_test {
namespace {

class Quantisations : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Quantisations, testing::ValuesIn(devices()), device_name);

TEST_P(Quantisations, ByRowsAndBlocks) { check_quantisations(GetParam()); }
TEST_P(Quantisations, Extremes) { check_quantised_extremes(GetParam()); }

}  // namespace
}  // namespace tegula::test::quantise_test
