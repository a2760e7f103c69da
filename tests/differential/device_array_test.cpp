// Kernels of whole arrays on every available device.
#include "tests/differential/device_array_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test::device_array_test {
namespace {

class DeviceArrays : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceArrays, testing::ValuesIn(devices()), device_name);

TEST_P(DeviceArrays, RunningSums) { check_scans(GetParam()); }
TEST_P(DeviceArrays, Selections) { check_selections(GetParam()); }
TEST_P(DeviceArrays, SumsOfSegments) { check_segment_sums(GetParam()); }
TEST_P(DeviceArrays, PlacesInSortedArrays) { check_searches(GetParam()); }
TEST_P(DeviceArrays, CountsOfKeys) { check_histograms(GetParam()); }

}  // namespace
}  // namespace tegula::test::device_array_test
