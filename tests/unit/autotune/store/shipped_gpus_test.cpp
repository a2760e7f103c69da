// A GPU that is described by its winners' class has that class, and so their winners.
#include "autotune/store/shipped_gpus.h"

#include <gmock/gmock.h>

#include "autotune/device_class.h"
#include "autotune/matmul/space.h"
#include "autotune/store/shipped_winners.h"
#include "autotune/store/winner_table.h"
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

/// Shapes near a shipped one take its configuration if the model agrees, with the same bits.
TEST(ShippedGpus, ServeShapesNearTheirWinners) {
  const auto folder = std::filesystem::path(TEGULA_SOURCE_DIR) / "autotune/winners";
  for (const runtime::DeviceProperties& gpu : shipped_gpus(folder)) {
    SCOPED_TRACE(gpu.name);
    runtime::describe_gpu(gpu);
    const Device device = Device::cuda();
    const DeviceProfile& profile = device_profile(device);
    const Limits limits = limits_of(profile);
    int other = 0;
    const auto winners = shipped_winners(folder, device_class(device), "matmul", 1);
    // This program contains the library, and has no folder of winners.
    for (const Winner& w : winners) WinnerTable::of_process().publish(w);
    for (const Winner& w : winners) {
      MatmulProblem p = *parse<MatmulProblem>(w.key.problem);
      if (p.m < 16) continue;
      p.m -= p.m / 16;
      const MatmulConfig made = choose_matmul(p, device), model = choose_matmul(p, profile);
      const MatmulSpace& space = matmul_space();
      other += made != model;
      EXPECT_LE(space.cycles(p, made, profile), 1.03 * space.cycles(p, model, profile));
      EXPECT_EQ(space.numerics(p, made, limits), space.numerics(p, model, limits));
    }
    EXPECT_GT(other, static_cast<int>(winners.size()) / 8);
  }
}

}  // namespace
}  // namespace tegula::autotune::shipped_gpus_test
