// Plan requests from a person's text to fields and back; preferences in a kernel's text.
#include "ir/plan_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/schedule/text.h"
#include "ir/text.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::ir::plan_request_test {
namespace {

using testing::HasSubstr;

TEST(PlanRequest, FieldsHaveOneText) {
  const PlanPatch patch{.stages = 2, .persistent = false};
  for (const char* text :
       {"stages=2 persistent=0", "persistent=false, stages=2", "plan { stages=2 persistent=0 }"}) {
    EXPECT_EQ(parse_plan_patch(text), patch) << text;
    EXPECT_EQ(parse_plan_request(text).str(), "stages=2 persistent=0") << text;
  }
  EXPECT_TRUE(parse_plan_request("").is_empty());
  EXPECT_THROW(parse_plan_request("depth=2"), CompileError);
  EXPECT_THROW(parse_plan_request("stages"), CompileError);
}

TEST(PlanRequest, LaterFieldsGoOverEarlierOnes) {
  PlanRequest request = parse_plan_request("stages=2 persistent=0");
  request.add(parse_plan_request("stages=3 num_warps=4"));
  EXPECT_EQ(request.str(), "num_warps=4 stages=3 persistent=0");
}

TEST(PlanRequest, LaterFieldsOverrideThoseOfASchedule) {
  Schedule schedule;
  schedule.tiles.ctas = 2;
  const std::string text = print(schedule);
  PlanRequest request = parse_plan_request("stages=2");
  request.add(parse_plan_request(text + " num_warps=8"));
  ASSERT_TRUE(request.schedule);
  EXPECT_EQ(print(*request.schedule), text);
  EXPECT_EQ(request.fields().min_ctas_per_sm, 2);
  EXPECT_EQ(request.fields().num_warps, 8);
  EXPECT_EQ(request.requested.stages, std::nullopt) << "what was asked before the Schedule is gone";
  EXPECT_EQ(parse_plan_request(request.str()).fields(), request.fields());
}

TEST(PlanRequest, AnAppliedPatchLeavesOtherFields) {
  Plan plan;
  plan.apply({.stages = 5, .multicast = true});
  EXPECT_EQ(plan.stages, 5);
  EXPECT_TRUE(plan.multicast);
  EXPECT_EQ(plan.num_warps, Plan().num_warps);
  EXPECT_EQ(plan.first_mismatch({.stages = 5}), "");
  EXPECT_EQ(plan.first_mismatch({.num_warps = 4, .multicast = false}), "multicast=0");
}

TEST(PlanRequest, PreferencesStandInAKernelsText) {
  Kernel k = parse(
      read_file(std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/make_persistent/multicast.tir"));
  EXPECT_EQ(k.info.preferred, (PlanPatch{.multicast = true}));
  k.info.preferred.tma_store = true;
  const std::string text = print(k);
  EXPECT_THAT(text, HasSubstr(" prefers(tma_store=1 multicast=1) ("));
  EXPECT_EQ(parse(text).info.preferred, k.info.preferred);
}

}  // namespace
}  // namespace tegula::ir::plan_request_test
