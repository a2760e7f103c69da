#include "ir/target.h"

#include <gmock/gmock.h>

#include <vector>

#include "ir/plan.h"

namespace tegula::ir::target_test {
namespace {

using testing::ElementsAre;

TEST(Target, IsFoundByItsNameAlone) {
  EXPECT_EQ(Target::find("sm_80"), Target("sm_80"));
  EXPECT_EQ(Target::find("sm_90a"), Target());
  EXPECT_FALSE(Target::find("sm_90"));
  EXPECT_FALSE(Target::find(""));
  EXPECT_EQ(Target::all_names(), "sm_80 and sm_90a");
}

TEST(Target, RowsAreOrderedAndWhole) {
  const Target* before = nullptr;
  for (const Target& target : Target::all()) {
    SCOPED_TRACE(target.name());
    if (before) {
      EXPECT_LT((*before)->capability, target->capability);
    }
    before = &target;
    EXPECT_LT(target->shared_bytes_per_cta, target->shared_bytes_per_sm);
    EXPECT_EQ(target->max_threads_per_sm % target->max_threads_per_cta, 0);
    EXPECT_TRUE(target->has_tma || !target->has_wgmma) << "operands of wgmma come by TMA";
  }
}

TEST(Target, ACapabilityIsTheNewestThatItRuns) {
  for (const auto& [capability, name] : {std::pair(70, "sm_80"),
                                         {80, "sm_80"},
                                         {89, "sm_80"},
                                         {90, "sm_90a"},
                                         {100, "sm_80"},
                                         {120, "sm_80"}})
    EXPECT_EQ(Target::of_capability(capability).name(), name) << capability;
}

TEST(Target, OldCodeIsAssembledForTheGpuThatRunsIt) {
  EXPECT_EQ(Target("sm_80").assembled_for(80), "sm_80");
  EXPECT_EQ(Target("sm_80").assembled_for(90), "sm_90");
  EXPECT_EQ(Target("sm_80").assembled_for(100), "sm_80") << "ptxas may not know it";
  EXPECT_EQ(Target("sm_90a").assembled_for(90), "sm_90a");
}

TEST(Target, RegistersAtEntryAreThoseOfTheFullestSubPartition) {
  const TargetRow& hopper = *Target("sm_90a");
  std::vector<int> of_warps;
  for (const int warps : {1, 4, 8, 9, 12, 13, 16, 32})
    of_warps.push_back(hopper.registers_at_entry(warps));
  EXPECT_THAT(of_warps, ElementsAre(255, 255, 255, 168, 168, 128, 128, 64));
  EXPECT_EQ(hopper.ring_bytes(), 225 * 1024);
}

TEST(Target, OccupancyIsLimitedByTheScarcestResource) {
  const auto ctas = [](Target target, CtaNeeds needs) { return ctas_per_sm(*target, needs); };
  const Target ampere("sm_80"), hopper("sm_90a");
  EXPECT_EQ(ctas(hopper, {.threads = 32}), 32) << "CTAs";
  EXPECT_EQ(ctas(hopper, {.threads = 256}), 8) << "threads";
  EXPECT_EQ(ctas(hopper, {.threads = 256, .registers = 127}), 2) << "registers";
  EXPECT_EQ(ctas(hopper, {.threads = 256, .registers = 129}), 1) << "in units of 8";
  EXPECT_EQ(ctas(hopper, {.threads = 128, .registers = 32, .shared_bytes = 100 << 10}), 2);
  EXPECT_EQ(ctas(ampere, {.threads = 128, .registers = 32, .shared_bytes = 100 << 10}), 1);
  EXPECT_EQ(ctas(hopper, {.threads = 128, .shared_bytes = hopper->shared_bytes_per_cta}), 1);
}

}  // namespace
}  // namespace tegula::ir::target_test
