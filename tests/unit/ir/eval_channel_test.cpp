// Machine form: TMA copies into slots that channels guard, and waits for MMAs.
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_channel_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Ran {
  std::vector<std::string> texts;
  std::vector<f32> out;
};

/// Runs a body over %x: view<?xf32> (1, 2, .. 8), %o: view<?xf32, out> and a number %n.
Ran run_machine(const std::string& body, std::int64_t n = 0) {
  HostTensor<f32> x = iota<f32>({8}, 1), out({8}, std::vector<f32>(8, -1));
  const std::string text =
      "kernel @m machine (%x: view<?xf32, in>, %o: view<?xf32, out>, %n: i32) {\n %z = const "
      "[value = 0] : i32 %one = const [value = 1] : i32 %six = const [value = 6] : i32\n" +
      body + "}";
  const EvalReport r = run(text, {x.view(), out.view(), int_arg(n)});
  return {texts(r), out.storage};
}

/// Two slots of four elements with a channel.
const std::string kRing = R"(
    %c = smem_alloc [bytes = 16] : smem<2xi64>
    %s = smem_alloc [bytes = 32] : smem<2x4xf32>
    channel_init %c
    %l = producer_thread
)";

TEST(EvalChannel, CopiesLandWhenTheirSlotIsWaitedFor) {
  const auto body = [](const std::string& wait) {
    return kRing + R"(
    if %l {
      channel_expect_tx %c, %one [bytes = 16]
      copy_tma %s, %one, %c, %x, %six [axes = [0]]
    } {
    }
    )" + wait +
           R"(
    %u = smem_load %s, %one : tile<4xf32>
    store_view %o, %u, %z [axes = [0]])";
  };
  const Ran right = run_machine(body("channel_wait %c, %one, %z"));
  EXPECT_THAT(right.texts, IsEmpty());
  // A copy writes zeros outside the view, and they are present.
  EXPECT_THAT(right.out, ElementsAre(7, 8, 0, 0, -1, -1, -1, -1));
  EXPECT_THAT(run_machine(body("")).texts,
              ElementsAre("smem_load touches element [0] of shared memory while a copy_async into "
                          "it has not been waited for"));
}

TEST(EvalChannel, WaitsThatNeverEnd) {
  const auto wait = [](const std::string& expect, const std::string& copies,
                       const std::string& waits) {
    return run_machine(kRing + "channel_expect_tx %c, %z [bytes = " + expect + "]\n" + copies +
                       waits)
        .texts;
  };
  const std::string copy = "copy_tma %s, %z, %c, %x, %z [axes = [0]]\n";
  EXPECT_THAT(wait("16", copy, "channel_wait %c, %z, %z"), IsEmpty());
  EXPECT_THAT(wait("16", copy, "channel_wait %c, %one, %z"),
              ElementsAre("channel_wait waits for phase 0 of slot 1, which no op ends"));
  EXPECT_THAT(wait("24", copy, "channel_wait %c, %z, %z"),
              ElementsAre("channel_wait waits for slot 0: 8 bytes expected more than copied"));
  EXPECT_THAT(wait("16", copy, "channel_wait %c, %z, %one"),
              ElementsAre("channel_wait waits for phase 1 of slot 0, which no op ends: the "
                          "other has just ended"));
}

TEST(EvalChannel, PhasesAlternate) {
  const std::string round =
      "channel_expect_tx %c, %z [bytes = 16]\n"
      "copy_tma %s, %z, %c, %x, %z [axes = [0]]\n";
  EXPECT_THAT(run_machine(kRing + round + "channel_wait %c, %z, %z\n" + round +
                          "channel_wait %c, %z, %one\n" + round + "channel_wait %c, %z, %z")
                  .texts,
              IsEmpty());
  EXPECT_EQ(
      run_machine(kRing + round + "channel_wait %c, %z, %z\n" + round + "channel_wait %c, %z, %z")
          .texts.size(),
      1u);
}

TEST(EvalChannel, ReleasesEndPhasesToo) {
  const auto texts = [](const std::string& condition, const std::string& phase) {
    return run_machine(
               "%c = smem_alloc [bytes = 16] : smem<2xi64>\n"
               "%f = smem_alloc [bytes = 16] : smem<2xi64>\n"
               "channel_init %c, %f\n%yes = const [value = " +
               condition + "] : i1\n channel_release %f, %one, %yes\n" + "channel_wait %f, %one, " +
               phase)
        .texts;
  };
  EXPECT_THAT(texts("1", "%z"), IsEmpty());
  EXPECT_THAT(texts("0", "%one"), IsEmpty());  // the phase before the first
  EXPECT_THAT(texts("0", "%z"),
              ElementsAre("channel_wait waits for phase 0 of slot 1, which no op ends"));
  EXPECT_THAT(texts("1", "%one"),
              ElementsAre("channel_wait waits for phase 1 of slot 1, which no op ends"));
}

/// An MMA of %a [2, 2] from registers or shared memory and %b [2, 2] in slot 1 of %r.
std::string product(const std::string& before, const std::string& a, const std::string& scale) {
  return R"(
    %r = smem_alloc [bytes = 32] : smem<2x2x2xf32>
    %t = load_view %x, %z [axes = [0]] : tile<4xf32>
    %a = reshape %t : tile<2x2xf32>
    smem_store %r, %a, %one
    %acc = const [value = 10.0] : tile<2x2xf32>
    %keep = const [value = )" +
         scale + "] : i1\n" + before + R"(
    %p = dot_async %acc, )" +
         a + R"( : pending<tile<2x2xf32>>
    %d = dot_wait %p [count = 0] : tile<2x2xf32>
    %flat = reshape %d : tile<4xf32>
    store_view %o, %flat, %z [axes = [0]])";
}

TEST(EvalChannel, Products) {
  const Ran kept = run_machine(product("", "%a, %r, %keep, %one", "1"));
  EXPECT_THAT(kept.texts, IsEmpty());
  EXPECT_THAT(kept.out, ElementsAre(17, 20, 25, 32, -1, -1, -1, -1));
  EXPECT_THAT(run_machine(product("", "%r, %r, %keep, %one, %one", "0")).out,
              ElementsAre(7, 10, 15, 22, -1, -1, -1, -1));
  EXPECT_THAT(run_machine(product("", "%a, %r, %keep, %z", "0")).texts,
              ElementsAre("dot_async reads element [0, 0] of shared memory that nothing has "
                          "written, or only another allocation at the same offset"));
  EXPECT_THAT(run_machine(product("", "%a, %r, %keep, %n", "0"), 2).texts,
              ElementsAre("dot_async uses slot 2 of 2"));
}

TEST(EvalChannel, AbsentElementsAreFilled) {
  const Ran r = run_machine(R"(
    %t = load_view %x, %six [axes = [0]] : tile<4xf32>
    %five = const [value = 5.0] : f32
    %f = fill_absent %t, %five : tile<4xf32>
    store_view %o, %f, %z [axes = [0]])");
  EXPECT_THAT(r.texts, IsEmpty());
  EXPECT_THAT(r.out, ElementsAre(7, 8, 5, 5, -1, -1, -1, -1));
}

}  // namespace
}  // namespace tegula::ir::eval_channel_test
