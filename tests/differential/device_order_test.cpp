// Sorts of whole arrays and the best k of rows on every available device.
#include "tests/differential/device_order_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test::device_order_test {
namespace {

class DeviceOrder : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceOrder, testing::ValuesIn(devices()), device_name);

TEST_P(DeviceOrder, CommonSorts) { check_common_sorts(GetParam()); }
TEST_P(DeviceOrder, SortOfManyTiles) { check_sort_of_many_tiles(GetParam()); }
TEST_P(DeviceOrder, OtherSorts) { check_other_sorts(GetParam()); }
TEST_P(DeviceOrder, SortsOfExtremes) { check_sorts_of_extremes(GetParam()); }
TEST_P(DeviceOrder, BestOfRows) { check_topks(GetParam()); }
TEST_P(DeviceOrder, BestOfExtremes) { check_topks_of_extremes(GetParam()); }
TEST_P(DeviceOrder, BestByWords) { check_topks_by_words(GetParam()); }
TEST_P(DeviceOrder, BestOfPartsOfRows) { check_topk_of_parts(GetParam()); }

}  // namespace
}  // namespace tegula::test::device_order_test
