// Machine form: layouts do not matter, shared memory remembers what was written, copies land when
// they are waited for.
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_machine_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A machine-form kernel over %x: view<?xf32>, %o: view<?xf32>.
std::string machine(const std::string& body) {
  return "kernel @m machine (%x: view<?xf32, in>, %o: view<?xf32, out>, %n: i32) {\n %z = const "
         "[value = 0] : i32 "
         "%one = const [value = 1] : i32 %two = const [value = 2] : i32\n" +
         body + "}";
}
struct Ran {
  std::vector<std::string> texts;
  std::vector<f32> out;
};
Ran run_machine(const std::string& body, std::int64_t n = 0) {
  HostTensor<f32> x = iota<f32>({8}, 1), out({8}, std::vector<f32>(8, -1));
  const EvalReport r = run(machine(body), {x.view(), out.view(), int_arg(n)});
  return {texts(r), out.storage};
}

TEST(EvalMachine, StoreBarrierLoad) {
  const Ran r = run_machine(R"(
    %t = load_view %x, %z [axes = [0]] : tile<4xf32>
    %c = convert_layout %t : tile<4xf32>
    %s = smem_alloc [bytes = 16] : smem<4xf32>
    grid_dependency_wait
    grid_launch_dependents
    smem_store %s, %c
    order_init
    multicast_flags %z
    cta_barrier
    order_wait
    %u = smem_load %s : tile<4xf32>
    order_arrive
    order_drain
    store_view %o, %u, %z [axes = [0]])");
  EXPECT_THAT(r.texts, IsEmpty());
  EXPECT_THAT(r.out, ElementsAre(1, 2, 3, 4, -1, -1, -1, -1));
}

TEST(EvalMachine, SlotsAreApartAndChecked) {
  const std::string body = R"(
    %t = load_view %x, %z [axes = [0]] : tile<4xf32>
    %f = const [value = 4] : i32
    %v = load_view %x, %f [axes = [0]] : tile<4xf32>
    %s = smem_alloc [bytes = 32] : smem<2x4xf32>
    smem_store %s, %t, %z
    smem_store %s, %v, %n
    %u = smem_load %s, %one : tile<4xf32>
    store_view %o, %u, %z [axes = [0]])";
  const Ran good = run_machine(body, 1);
  EXPECT_THAT(good.texts, IsEmpty());
  EXPECT_THAT(good.out, ElementsAre(5, 6, 7, 8, -1, -1, -1, -1));
  EXPECT_THAT(run_machine(body, 2).texts,
              ElementsAre("smem_store uses slot 2 of 2",
                          "smem_load reads element [0] of shared memory that nothing has written, "
                          "or only another allocation at the same offset"));
}

TEST(EvalMachine, BoxesOfTiles) {
  const Ran r = run_machine(R"(
    %t = load_view %x, %z [axes = [0]] : tile<8xf32>
    %m = reshape %t : tile<2x4xf32>
    %b = tile_slice %m [offsets = [0, 1]] : tile<2x2xf32>
    %f = reshape %b : tile<4xf32>
    store_view %o, %f, %z [axes = [0]]
    %l = tile_slice %m [offsets = [1, 2]] : tile<1x2xf32>
    %g = reshape %l : tile<2xf32>
    %four = const [value = 4] : i32
    store_view %o, %g, %four [axes = [0]])");
  EXPECT_THAT(r.texts, IsEmpty());
  EXPECT_THAT(r.out, ElementsAre(2, 3, 6, 7, 7, 8, -1, -1));
}

TEST(EvalMachine, SlicesKeepEdges) {
  const Ran r = run_machine(R"(
    %t = load_view %x, %n [axes = [0]] : tile<8xf32>
    %l = tile_slice %t [offsets = [2]] : tile<4xf32>
    store_view %o, %l, %z [axes = [0]])",
                            4);
  EXPECT_THAT(r.out, ElementsAre(7, 8, -1, -1, -1, -1, -1, -1));
}

TEST(EvalMachine, StoresStopAtTheirLimits) {
  const Ran r = run_machine(R"(
    %t = load_view %x, %z [axes = [0]] : tile<4xf32>
    store_view %o, %t, %two, %n [axes = [0]])",
                            4);
  EXPECT_THAT(r.out, ElementsAre(-1, -1, 1, 2, -1, -1, -1, -1));
}

TEST(EvalMachine, LimitsOfDimensionsTheTileDoesNotRunAlong) {
  const std::string body =
      "%v = load_view %x, %z [axes = []] : f32 store_view %o, %v, %two, %n [axes = []]";
  EXPECT_THAT(run_machine(body, 2).out, Each(-1));
  EXPECT_EQ(run_machine(body, 3).out[2], 1);
}

TEST(EvalMachine, UninitializedSharedMemory) {
  const std::string body = R"(
    %t = load_view %x, %z [axes = [0]] : tile<4xf32>
    %s = smem_alloc [bytes = 32] : smem<2x4xf32>
    smem_store %s, %t, %z
    %u = smem_load %s, %n : tile<4xf32>)";
  EXPECT_THAT(run_machine(body, 1).texts,
              ElementsAre("smem_load reads element [0] of shared memory that nothing has written, "
                          "or only another allocation at the same offset"));
  EXPECT_THAT(run_machine(body, 0).texts, IsEmpty());
}

TEST(EvalMachine, EachAllocationIsItsOwn) {
  EXPECT_THAT(run_machine(R"(
    %t = load_view %x, %z [axes = [0]] : tile<4xf32>
    for %z, %two, %one { (%i: i32)
      %s = smem_alloc [bytes = 16] : smem<4xf32>
      %first = cmp %i, %z [pred = "eq"]
      if %first { smem_store %s, %t yield } { yield }
      %u = smem_load %s : tile<4xf32>
      yield
    })")
                  .texts,
              ElementsAre("smem_load reads element [0] of shared memory that nothing has written, "
                          "or only another allocation at the same offset"));
}

TEST(EvalMachine, AllocationsAtOneOffsetOverwriteEachOther) {
  const auto body = [](const std::string& offset) {
    return R"(
    %t = load_view %x, %z [axes = [0]] : tile<4xf32>
    %a = smem_alloc [bytes = 32, offset = 0] : smem<2x4xf32>
    %b = smem_alloc [bytes = 16, offset = )" +
           offset + R"(] : smem<4xf32>
    smem_store %a, %t, %z
    smem_store %a, %t, %one
    smem_store %b, %t
    %u = smem_load %a, %n : tile<4xf32>)";
  };
  EXPECT_EQ(run_machine(body("16"), 1).texts.size(), 1u);
  EXPECT_THAT(run_machine(body("16"), 0).texts, IsEmpty());  // the other slot
  EXPECT_THAT(run_machine(body("32"), 1).texts, IsEmpty());
}

TEST(EvalMachine, CopiesLandWhenTheirGroupIsWaitedFor) {
  const auto body = [](const std::string& wait) {
    return R"(
    %s = smem_alloc [bytes = 32] : smem<2x4xf32>
    copy_async %s, %z, %x, %z [axes = [0]]
    async_commit
    %six = const [value = 6] : i32
    copy_async %s, %one, %x, %six [axes = [0]]
    async_commit
    )" + wait +
           R"(
    %u = smem_load %s, %n : tile<4xf32>
    store_view %o, %u, %z [axes = [0]])";
  };
  const std::string early =
      "smem_load touches element [0] of shared memory while a copy_async into it has not been "
      "waited for";
  EXPECT_THAT(run_machine(body("async_wait [count = 2]"), 0).texts, ElementsAre(early));
  EXPECT_THAT(run_machine(body("async_wait [count = 1]"), 1).texts, ElementsAre(early));
  EXPECT_THAT(run_machine(body("async_wait [count = 1]"), 0).texts, IsEmpty());
  EXPECT_THAT(run_machine(body("async_wait [count = 1]"), 0).out,
              ElementsAre(1, 2, 3, 4, -1, -1, -1, -1));
  // Outside of the view a copy writes zeros, which are present.
  EXPECT_THAT(run_machine(body("async_wait [count = 0]"), 1).texts, IsEmpty());
  EXPECT_THAT(run_machine(body("async_wait [count = 0]"), 1).out,
              ElementsAre(7, 8, 0, 0, -1, -1, -1, -1));
}

TEST(EvalMachine, ACopyWithoutCommitIsNotWaitedFor) {
  const auto body = [](const std::string& commit) {
    return "%s = smem_alloc [bytes = 16] : smem<4xf32> copy_async %s, %z, %x, %z [axes = [0]] " +
           commit + " async_wait [count = 0] %u = smem_load %s : tile<4xf32>";
  };
  EXPECT_EQ(run_machine(body("")).texts.size(), 1u);
  EXPECT_THAT(run_machine(body("async_commit")).texts, IsEmpty());
}

TEST(EvalMachine, OverwritingAPendingCopy) {
  const auto body = [](const std::string& wait) {
    return "%t = load_view %x, %z [axes = [0]] : tile<4xf32> %s = smem_alloc [bytes = 16] : "
           "smem<4xf32> "
           "copy_async %s, %z, %x, %z [axes = [0]] async_commit " +
           wait + " smem_store %s, %t";
  };
  EXPECT_THAT(run_machine(body("")).texts,
              ElementsAre("smem_store touches element [0] of shared memory while a copy_async into "
                          "it has not been waited for"));
  EXPECT_THAT(run_machine(body("async_wait [count = 0]")).texts, IsEmpty());
}

TEST(EvalMachine, RolesRunAndMustNotShareWithoutAChannel) {
  const auto body = [](const std::string& slot) {
    return R"(
    %t = load_view %x, %z [axes = [0]] : tile<4xf32>
    %s = smem_alloc [bytes = 32] : smem<2x4xf32>
    smem_store %s, %t, %z
    smem_store %s, %t, %one
    cta_barrier
    roles [warps = [4, 4], names = "a,b"] {
      %u = smem_load %s, %one : tile<4xf32>
      smem_store %s, %u, %one
    } {
      %v = smem_load %s, )" +
           slot + R"( : tile<4xf32>
      store_view %o, %v, %z [axes = [0]]
    }
    %w = smem_load %s, %one : tile<4xf32>)";
  };
  const Ran apart = run_machine(body("%z"));
  EXPECT_THAT(apart.texts, IsEmpty());
  EXPECT_THAT(apart.out, ElementsAre(1, 2, 3, 4, -1, -1, -1, -1));
  EXPECT_THAT(run_machine(body("%one")).texts,
              ElementsAre("smem_load touches element [0] of shared memory that another role "
                          "touches, with no channel between them"));
}

TEST(EvalMachine, CopyGroupsBelongToTheirRole) {
  const auto body = [](const std::string& where) {
    std::string text = R"(
    %s = smem_alloc [bytes = 16] : smem<4xf32>
    roles [warps = [4, 4], names = "a,b"] {
      copy_async %s, %z, %x, %z [axes = [0]]
      async_commit
      FIRST
    } {
      async_wait [count = 0]
    }
    %u = smem_load %s : tile<4xf32>)";
    return text.replace(text.find("FIRST"), 5, where);
  };
  EXPECT_EQ(run_machine(body("")).texts.size(), 1u);
  EXPECT_THAT(run_machine(body("async_wait [count = 0]")).texts, IsEmpty());
}

TEST(EvalMachine, RolesLeaveTheGroupsOfOthersAlone) {
  const auto body = [](const std::string& in_role) {
    return R"(
    %s = smem_alloc [bytes = 16] : smem<4xf32>
    copy_async %s, %z, %x, %z [axes = [0]]
    async_commit
    roles [warps = [4], names = "a"] {
      async_wait [count = 0]
      )" + in_role +
           R"(
    }
    async_wait [count = 0]
    %u = smem_load %s : tile<4xf32>)";
  };
  EXPECT_THAT(run_machine(body("")).texts, IsEmpty());
  EXPECT_EQ(run_machine(body("%r = smem_load %s : tile<4xf32>")).texts.size(), 1u);
}

}  // namespace
}  // namespace tegula::ir::eval_machine_test
