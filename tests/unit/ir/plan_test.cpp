// A plan that was given or changed is one that the passes can carry out, or an error says why not.
#include "ir/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/pipeline.h"
#include "ir/text.h"
#include "support/text.h"
#include "tegula/error.h"
#include "tests/replaced.h"

namespace tegula::ir::plan_test {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& file, const std::string& changes) {
  Kernel k =
      parse(read_file(std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/plan/" + file), file);
  PassContext context;
  const Pass* pass = find_pass(ir_passes(), "plan");
  pass->run(k, context);
  try {
    context.plan->apply(parse_plan_patch(changes));
    pass->run(k, context);
  } catch (const CompileError& e) {
    return e.what();
  }
  return "legal: " + context.plan->str();
}

TEST(Plan, ChangesThatFit) {
  EXPECT_THAT(refusal("product_sm_90a.tir", "stages=2 producer_warps=0 persistent=1"),
              HasSubstr("legal: plan { num_warps=4 min_ctas_per_sm=1 stages=2"));
  EXPECT_THAT(refusal("product_sm_80.tir", "stages=1"), HasSubstr("legal: "));
}

/// A number of warps alone is divided as the passes do.
TEST(Plan, NumberOfWarpsAlone) {
  for (const int warps : {1, 2, 4, 8}) {
    Kernel k =
        parse(read_file(std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/plan/product_sm_80.tir"),
              "product_sm_80.tir");
    PassContext context;
    context.planned.requested.num_warps = warps;
    EXPECT_NO_THROW(find_pass(ir_passes(), "plan")->run(k, context)) << warps;
    EXPECT_EQ(context.plan->num_warps, warps);
  }
}

TEST(Plan, EveryRule) {
  const auto hopper = [](const char* changes) { return refusal("product_sm_90a.tir", changes); };
  EXPECT_THAT(hopper("num_warps=0"), HasSubstr("num_warps + producer_warps must be 1 to 32"));
  EXPECT_THAT(hopper("min_ctas_per_sm=0"), HasSubstr("min_ctas_per_sm is at least 1"));
  EXPECT_THAT(hopper("stages=1"), HasSubstr("stages is 1 to 16, with wgmma 2 to 16"));
  EXPECT_THAT(hopper("warps_m=3"), HasSubstr("num_warps must be warps_m * warps_n"));
  EXPECT_THAT(refusal("product_sm_80.tir", "num_warps=6 warps_m=2 warps_n=3"),
              HasSubstr("warps_m and warps_n cannot partition the rows and columns"));
  EXPECT_THAT(refusal("product_sm_80.tir", "wgmma=1"),
              HasSubstr("wgmma=1 needs MMAs that wgmma can compute"));
  EXPECT_THAT(hopper("num_warps=8 warps_m=8"), HasSubstr("with wgmma a warp must have 16 rows"));
  EXPECT_THAT(hopper("wgmma=0"), HasSubstr("producer_warps and persistent need wgmma"));
  EXPECT_THAT(refusal("product_sm_80.tir", "persistent=1"),
              HasSubstr("producer_warps and persistent need wgmma"));
  EXPECT_THAT(hopper("dynamic_scheduler=1 persistent=0"),
              HasSubstr("dynamic_scheduler needs persistent"));
  EXPECT_THAT(hopper("tma_store=1 persistent=0"), HasSubstr("tma_store needs persistent"));
  EXPECT_THAT(hopper("producer_warps=2"), HasSubstr("producer_warps must be 0, 1 or 4"));
  EXPECT_THAT(hopper("consumer_registers=240"), HasSubstr("needs 4 producer_warps"));
  EXPECT_THAT(hopper("producer_warps=4 consumer_registers=236"), HasSubstr("a multiple of 8"));
  EXPECT_THAT(hopper("multicast=1"),
              HasSubstr("multicast is for persistent kernels in which neighbouring tiles share"));
  EXPECT_THAT(hopper("producer_warps=4 consumer_registers=240"),
              HasSubstr("must exceed the registers of a thread at entry"));
}

/// TEGULA_PLAN applies to all kernels of a process.
TEST(Plan, ChangesOfEveryKernel) {
  Kernel k =
      parse(read_file(std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/plan/product_sm_80.tir"),
            "product_sm_80.tir");
  PassContext context;
  context.planned = parse_plan_request("stages=2 persistent=1 producer_warps=1");
  find_pass(ir_passes(), "plan")->run(k, context);
  EXPECT_EQ(context.plan->stages, 2);
  EXPECT_FALSE(context.plan->persistent);
  EXPECT_EQ(context.plan->producer_warps, 0);
}

/// Stores by TMA if TMA can store a result and its shared memory fits next to the rings; else a
/// remark says why not.
TEST(Plan, StoresByTma) {
  const std::string file =
      std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/make_persistent/multicast.tir";
  const std::string text = read_file(file);
  const auto plan_or_remark = [&](const std::string& kernel, const char* changes) {
    Kernel k = parse(kernel, file);
    PassContext context;
    context.planned = parse_plan_request(changes);
    find_pass(ir_passes(), "plan")->run(k, context);
    EXPECT_EQ(context.plan->tma_store, context.remarks.size() == 1);
    return context.plan->tma_store ? context.plan->str() : context.remarks.front().reason;
  };
  EXPECT_THAT(plan_or_remark(text, "tma_store=1"), HasSubstr("tma_store=1"));
  EXPECT_THAT(plan_or_remark(text, "tma_store=1 persistent=0 multicast=0"),
              HasSubstr("no stores by TMA: the kernel is not persistent"));
  EXPECT_THAT(plan_or_remark(text, "tma_store=1 stages=5"),
              HasSubstr("no stores by TMA: the rings leave no shared memory"));
  const std::string view = "f32, out, align=16";
  EXPECT_THAT(plan_or_remark(test::replaced(text, view, "f32, out, align=8"), "tma_store=1"),
              HasSubstr("no stores by TMA: TMA supports none of the results"));
}

/// Auxiliary loads by TMA: if a mainloop loads a box that TMA can load, besides its operands, and
/// there is room; else a remark says why not.
TEST(Plan, LoadsByTma) {
  const auto plan_or_remark = [](const std::string& name, const char* changes,
                                 const char* from = "", const char* to = "") {
    const std::string file = std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/" + name;
    const std::string text = read_file(file);
    Kernel k = parse(*from != 0 ? test::replaced(text, from, to) : text, file);
    PassContext context;
    context.planned = parse_plan_request(changes);
    find_pass(ir_passes(), "plan")->run(k, context);
    const auto missed = std::ranges::find(context.remarks, Remark::Kind::Missed, &Remark::kind);
    EXPECT_EQ(context.plan->tma_aux_loads, missed == context.remarks.end());
    return context.plan->tma_aux_loads ? context.plan->str() : missed->reason;
  };
  const char* auxiliary = "pipeline_wgmma/auxiliary_loads.tir";
  EXPECT_THAT(plan_or_remark(auxiliary, ""), HasSubstr("tma_aux_loads=1"));
  EXPECT_THAT(plan_or_remark(auxiliary, "stages=9"), HasSubstr("tma_aux_loads=1"));
  EXPECT_THAT(plan_or_remark(auxiliary, "stages=10"),
              HasSubstr("no auxiliary loads by TMA: the operands leave no shared memory"));
  EXPECT_THAT(
      plan_or_remark(auxiliary, "wgmma=0 producer_warps=0 consumer_registers=0 persistent=0"),
      HasSubstr("no auxiliary loads by TMA: the MMAs are not wgmmas"));
  EXPECT_THAT(plan_or_remark(auxiliary, "", "sm_90a", "sm_80"),
              HasSubstr("no auxiliary loads by TMA: sm_80 has no TMA"));
  EXPECT_THAT(plan_or_remark(auxiliary, "", "stride_div=8x1", "stride_div=4x1"),
              HasSubstr("the mainloops have none that TMA supports"));
  EXPECT_THAT(plan_or_remark("plan/product_sm_90a.tir", "tma_aux_loads=1"),
              HasSubstr("the mainloops have none that TMA supports"));
}

/// Kernels that may start before their predecessor ends have no counter of tiles: both would use
/// it.
TEST(Plan, TilesByACounter) {
  const std::string file =
      std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/make_persistent/counter.tir";
  const auto plan_of = [&](bool waits, const char* changes) {
    Kernel k = parse(read_file(file), file);
    Builder b(k);
    b.before(k[k.body()].first);
    if (waits) b.effect(Opcode::GridDependencyWait, {});
    PassContext context;
    context.planned = parse_plan_request(changes);
    find_pass(ir_passes(), "prove_bounds")->run(k, context);
    find_pass(ir_passes(), "plan")->run(k, context);
    EXPECT_TRUE(context.plan->persistent || *changes != 0);
    return context.plan->dynamic_scheduler;
  };
  EXPECT_TRUE(plan_of(false, ""));
  EXPECT_FALSE(plan_of(false, "dynamic_scheduler=0"));
  EXPECT_FALSE(plan_of(false, "persistent=0"));
  EXPECT_FALSE(plan_of(true, ""));
  EXPECT_FALSE(plan_of(true, "dynamic_scheduler=1"));
}

/// Neighbouring tiles are assigned statically, known ahead only on request, as their trips are not
/// read from memory.
TEST(Plan, MulticastWithEitherScheduler) {
  const auto run = [](PassContext& context, const std::string& name = "multicast.tir") {
    const std::string file =
        std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/make_persistent/" + name;
    Kernel k = parse(read_file(file), file);
    if (name != "multicast.tir") find_pass(ir_passes(), "predicate_mainloops")->run(k, context);
    find_pass(ir_passes(), "plan")->run(k, context);
  };
  const auto ahead = [&](const std::string& name, const char* fields) {
    PassContext context;
    context.planned = parse_plan_request(fields);
    run(context, name);
    EXPECT_TRUE(context.plan->multicast);
    return context.plan->dynamic_scheduler;
  };
  PassContext asked;
  run(asked);
  EXPECT_TRUE(asked.plan->multicast);
  EXPECT_FALSE(asked.plan->dynamic_scheduler);
  PassContext changed;
  changed.planned = parse_plan_request("dynamic_scheduler=1");
  run(changed);
  EXPECT_TRUE(changed.plan->multicast);
  EXPECT_TRUE(changed.plan->dynamic_scheduler);
  PassContext given;
  given.plan = changed.plan;
  run(given);
  EXPECT_EQ(*given.plan, *changed.plan);
  EXPECT_TRUE(ahead("multicast_ahead.tir", ""));
  EXPECT_FALSE(ahead("multicast_ahead.tir", "dynamic_scheduler=0"));
}

/// A tile is one warpgroup's work where the plan can be carried out so; else all warps have it.
TEST(Plan, Pingpong) {
  const std::string file =
      std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/make_persistent/alternate.tir";
  const auto run = [&](PassContext& context) {
    Kernel k = parse(read_file(file), file);
    find_pass(ir_passes(), "plan")->run(k, context);
  };
  const auto plan_of = [&](const char* changes) {
    PassContext context;
    context.planned = parse_plan_request(changes);
    run(context);
    return *context.plan;
  };
  const Plan asked = plan_of("");
  EXPECT_EQ(asked.groups(), 2);
  EXPECT_EQ(asked.num_warps, 4);
  EXPECT_EQ(asked.consumer_warps(), 8);
  EXPECT_EQ(asked.registers_at_entry(*Target()), 168);
  EXPECT_EQ(asked.producer_registers(*Target()), 40);
  EXPECT_EQ(plan_of("stages=3").stages, 3);
  EXPECT_TRUE(plan_of("stages=3 multicast=1").pingpong);
  for (const char* changes : {"pingpong=0", "persistent=0", "dynamic_scheduler=1",
                              "producer_warps=0 consumer_registers=0", "wgmma=0"}) {
    SCOPED_TRACE(changes);
    EXPECT_FALSE(plan_of(changes).pingpong);
    EXPECT_NE(plan_of(changes).num_warps, asked.num_warps);
  }
  for (const auto& [changes, rule] :
       {std::pair("dynamic_scheduler=1", "excludes dynamic_scheduler and warp_scheduler_barrier"),
        {"producer_warps=0 consumer_registers=0", "pingpong needs persistent and producer_warps"},
        {"num_warps=8 warps_m=8",
         "pingpong is for tiles that one warpgroup of 4 warps can compute"}}) {
    PassContext given;
    given.plan = asked;
    given.plan->apply(parse_plan_patch(changes));
    try {
      run(given);
      ADD_FAILURE() << changes;
    } catch (const CompileError& e) {
      EXPECT_THAT(e.what(), HasSubstr(rule));
    }
  }
}

TEST(Plan, UnknownFields) {
  EXPECT_THAT(refusal("product_sm_90a.tir", "depth=3"),
              HasSubstr("'depth=3' is not of the form field=number"));
}

}  // namespace
}  // namespace tegula::ir::plan_test
