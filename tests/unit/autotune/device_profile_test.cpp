// Which row of the device profiles serves a GPU, and that the rows are whole.
#include "tegula/device_profile.h"

#include <gmock/gmock.h>

#include "autotune/profiles/profile_finding.h"
#include "autotune/profiles/rows.h"
#include "tegula/matmul_config.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::device_profile_test {
namespace {

using runtime::testing::mock;
using runtime::testing::MockDriver;
using testing::HasSubstr;

const GpuModel kH200{"NVIDIA H200", 90, 132, 4917}, kH100{"NVIDIA H100 80GB HBM3", 90, 132, 3352};

TEST(DeviceProfile, IsThatOfTheModel) {
  const ProfileMatch h200 = find_profile(kH200), h100 = find_profile(kH100);
  EXPECT_TRUE(h200.is_exact);
  EXPECT_EQ(h200.profile->name, "H200 SXM");
  EXPECT_TRUE(h100.is_exact);
  EXPECT_EQ(h100.profile->name, "H100 SXM");
  EXPECT_EQ(&host_profile(), h200.profile);
  EXPECT_EQ(&device_profile(Device::sim()), h200.profile);
}

TEST(DeviceProfile, AnUnknownModelIsTheNearest) {
  const auto nearest = [](const GpuModel& gpu) {
    const ProfileMatch match = find_profile(gpu);
    EXPECT_FALSE(match.is_exact) << gpu.name;
    return match.profile->name;
  };
  EXPECT_EQ(nearest({"NVIDIA H100 PCIe", 90, 114, 2039}), "H100 SXM");
  EXPECT_EQ(nearest({"NVIDIA H200 NVL", 90, 132, 4800}), "H200 SXM");
  EXPECT_EQ(nearest({"NVIDIA H200 MIG 1g.18gb", 90, 16, 0}), "H200 SXM");
  EXPECT_EQ(nearest({"NVIDIA A100-SXM4-80GB", 80, 108, 2039}), "H100 SXM");
}

TEST(DeviceProfile, RowsDifferInTheirMemoryAlone) {
  const DeviceProfile &h200 = autotune::kH200, &h100 = autotune::kH100;
  EXPECT_LT(h100.cost.hbm_bytes, h200.cost.hbm_bytes);
  EXPECT_LT(h100.attention.memory_bytes_per_us, h200.attention.memory_bytes_per_us);
  EXPECT_EQ(h100.cost.l2_lines, h200.cost.l2_lines);
  EXPECT_FALSE(h100.is_fitted);
  EXPECT_EQ(h200.ring_bytes(), 225 * 1024);
  EXPECT_EQ(h200.consumer_registers(8), 240);
  EXPECT_EQ(h200.consumer_registers(8, 40), 232);
  EXPECT_EQ(h200.consumer_registers(12), 160);
}

/// Where adding parts takes for ever, k is not split.
TEST(DeviceProfile, DecidesConfigurations) {
  const MatmulProblem p{.m = 64, .n = 1024, .k = 16384, .b_k_major = true};
  DeviceProfile slow_reduction = host_profile();
  slow_reduction.cost.cluster_sum = slow_reduction.cost.reduce = 1e9;
  EXPECT_GT(choose_matmul(p, host_profile()).parts, 1);
  EXPECT_EQ(choose_matmul(p, slow_reduction).parts, 1);
}

TEST(DeviceProfile, DoctorReportsTheRowOfAGpu) {
  EXPECT_EQ(autotune::examine_profiles({}).detail, "H200 SXM, for cpu and sim");
  const MockDriver driver;
  const std::vector gpus{runtime::device_properties(0)};
  const runtime::DoctorCheck found = autotune::examine_profiles(gpus);
  EXPECT_FALSE(found.present) << "the mock is no model";
  EXPECT_THAT(found.detail, HasSubstr("cuda:0 nearest only: "));
  EXPECT_THAT(found.remedy, HasSubstr("tegula calibrate"));
}

}  // namespace
}  // namespace tegula::device_profile_test
