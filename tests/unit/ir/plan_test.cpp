// A plan that was given or changed is one that the passes can carry out, or an error says why not.
#include "ir/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/pipeline.h"
#include "ir/text.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::ir {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& file, const std::string& changes) {
  Kernel k =
      parse(read_file(std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/plan/" + file), file);
  PassContext context;
  const Pass* pass = find_pass(ir_passes(), "plan");
  pass->run(k, context);
  try {
    context.plan->change(changes);
    pass->run(k, context);
  } catch (const CompileError& e) {
    return e.what();
  }
  return "legal: " + context.plan->str();
}

TEST(Plan, ChangesThatFit) {
  EXPECT_THAT(refusal("product_sm_90a.tir", "stages=2 copy_warps=0 persistent=1"),
              HasSubstr("legal: plan { warps=4 min_ctas=1 stages=2"));
  EXPECT_THAT(refusal("product_sm_80.tir", "stages=1"), HasSubstr("legal: "));
}

TEST(Plan, EveryRule) {
  const auto hopper = [](const char* changes) { return refusal("product_sm_90a.tir", changes); };
  EXPECT_THAT(hopper("warps=0"), HasSubstr("warps and copy_warps are 1 to 32 together"));
  EXPECT_THAT(hopper("min_ctas=0"), HasSubstr("min_ctas is at least 1"));
  EXPECT_THAT(hopper("stages=1"), HasSubstr("stages is 1 to 16, with wgmma 2 to 16"));
  EXPECT_THAT(hopper("warps_m=3"), HasSubstr("warps is warps_m times warps_n"));
  EXPECT_THAT(refusal("product_sm_80.tir", "wgmma=1"),
              HasSubstr("wgmma=1 needs products that wgmma can compute"));
  EXPECT_THAT(hopper("warps=8 warps_m=8"), HasSubstr("with wgmma a warp has 16 rows"));
  EXPECT_THAT(hopper("wgmma=0"), HasSubstr("copy_warps and persistent need wgmma"));
  EXPECT_THAT(refusal("product_sm_80.tir", "persistent=1"),
              HasSubstr("copy_warps and persistent need wgmma"));
  EXPECT_THAT(hopper("copy_warps=2"), HasSubstr("copy_warps is 0, 1 or 4"));
  EXPECT_THAT(hopper("registers=240"), HasSubstr("needs 4 copy_warps"));
  EXPECT_THAT(hopper("copy_warps=4 registers=236"), HasSubstr("a multiple of 8"));
  EXPECT_THAT(hopper("multicast=1"),
              HasSubstr("multicast is for persistent kernels in which neighbouring tiles share"));
  EXPECT_THAT(hopper("exp2_share=17"), HasSubstr("exp2_share is 0 to 16"));
  EXPECT_THAT(hopper("copy_warps=4 registers=240"), HasSubstr("more than all have at the entry"));
}

/// What TEGULA_PLAN sets is for all kernels of a process.
TEST(Plan, ChangesOfEveryKernel) {
  Kernel k =
      parse(read_file(std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/plan/product_sm_80.tir"),
            "product_sm_80.tir");
  PassContext context;
  context.plan_changes = "stages=2 persistent=1 copy_warps=1";
  find_pass(ir_passes(), "plan")->run(k, context);
  EXPECT_EQ(context.plan->stages, 2);
  EXPECT_FALSE(context.plan->persistent);
  EXPECT_EQ(context.plan->copy_warps, 0);
}

TEST(Plan, WhatIsNoField) {
  EXPECT_THAT(refusal("product_sm_90a.tir", "depth=3"), HasSubstr("'depth=3' is no field=number"));
}

}  // namespace
}  // namespace tegula::ir
