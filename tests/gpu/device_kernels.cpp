// The library's kernels of whole arrays and log-space matmul on the GPU, by either back end; twins:
// tests/differential/{device_array,device_order,log_matmul}_test.cpp.
#include "tests/differential/device_array_checks.h"
#include "tests/differential/device_order_checks.h"
#include "tests/differential/log_matmul_checks.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::test::device_kernels {
namespace {

class DeviceKernelsOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, DeviceKernelsOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DeviceKernelsOnGpu, RunningSums) {
  check_scans(Device::cuda());
  check_scan_of_many_chunks(Device::cuda());
}
TEST_P(DeviceKernelsOnGpu, Selections) { check_selections(Device::cuda()); }
TEST_P(DeviceKernelsOnGpu, SumsOfSegments) { check_segment_sums(Device::cuda()); }
TEST_P(DeviceKernelsOnGpu, PlacesInSortedArrays) { check_searches(Device::cuda()); }
TEST_P(DeviceKernelsOnGpu, CountsOfKeys) { check_histograms(Device::cuda()); }
TEST_P(DeviceKernelsOnGpu, CommonSorts) { check_common_sorts(Device::cuda()); }
TEST_P(DeviceKernelsOnGpu, OtherSorts) { check_other_sorts(Device::cuda()); }
TEST_P(DeviceKernelsOnGpu, BestOfRows) { check_topks(Device::cuda()); }
TEST_P(DeviceKernelsOnGpu, BestByWords) {
  check_topks_by_words(Device::cuda());
  check_topk_of_parts(Device::cuda());
}
TEST_P(DeviceKernelsOnGpu, LogMatmuls) {
  check_log_matmuls(Device::cuda());
  check_log_matmul_extremes(Device::cuda());
}

}  // namespace
}  // namespace tegula::test::device_kernels
