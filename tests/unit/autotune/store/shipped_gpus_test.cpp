// A GPU that is described by its winners' class has that class, and so their winners.
#include "autotune/store/shipped_gpus.h"

#include <gmock/gmock.h>

#include "autotune/device_class.h"
#include "autotune/store/shipped_winners.h"
#include "runtime/described_gpu.h"
#include "tegula/device_profile.h"

namespace tegula::autotune::shipped_gpus_test {
namespace {

TEST(ShippedGpus, HaveTheClassOfTheirWinners) {
  const auto folder = std::filesystem::path(TEGULA_SOURCE_DIR) / "autotune/winners";
  const auto gpus = shipped_gpus(folder);
  ASSERT_GE(gpus.size(), 2u) << folder;
  for (const runtime::DeviceProperties& gpu : gpus) {
    SCOPED_TRACE(gpu.name);
    runtime::describe_gpu(gpu);
    const Device device = Device::cuda();
    EXPECT_FALSE(shipped_winners(folder, device_class(device), "matmul", 1).empty());
    EXPECT_EQ(device_profile(device).driver_name, gpu.name);
    EXPECT_EQ(num_sms(device), gpu.sm_count);
    EXPECT_TRUE(has_wgmma(device));
  }
  EXPECT_TRUE(shipped_gpus("/nonexistent").empty());
}

}  // namespace
}  // namespace tegula::autotune::shipped_gpus_test
