// Tiles by a counter: the fetch, the number on its way through a channel, and a whole kernel that
// takes its tiles so.
#include "ir/builder.h"
#include "ir/pipeline.h"
#include "support/text.h"
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_tiles_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EvalTiles, TheLastFetchSetsTheCounterBack) {
  HostTensor<u32> counter({1});
  HostTensor<i32> out({5}, {-1, -1, -1, -1, -1});
  // Five programs, one fetch each, of three tiles.
  const std::string text = R"(kernel @m machine (%c: ptr<u32>, %o: view<?xi32, out>, %n: i32) {
    launch {
      %five = const [value = 5] : i32
      %one = const [value = 1] : i32
      yield %five, %one, %one
    }
    %p = program_id [axis = 0] : i32
    %f = fetch_tile %c, %n : i32
    store_view %o, %f, %p [axes = []]
  })";
  run_clean(text, {counter.pointer(), out.view(), int_arg(3)});
  EXPECT_THAT(out.storage, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_EQ(counter.storage[0], 2u);
  run_clean(text, {counter.pointer(), out.view(), int_arg(7)});
  EXPECT_THAT(out.storage, ElementsAre(2, 3, 4, 5, 6));
  EXPECT_EQ(counter.storage[0], 0u);
}

/// A channel with a word for each of its two slots.
std::vector<std::string> with_queue(const std::string& body, std::vector<i32>* taken = nullptr) {
  HostTensor<i32> out({2}, {-1, -1});
  const EvalReport r = run(R"(kernel @m machine (%o: view<?xi32, out>, %n: i32) {
    %z = const [value = 0] : i32
    %one = const [value = 1] : i32
    %there = smem_alloc [bytes = 16] : smem<2xi64>
    %read = smem_alloc [bytes = 16] : smem<2xi64>
    %words = smem_alloc [bytes = 32] : smem<2x2xi64>
    channel_init %there, %read
)" + body + "}",
                           {out.view(), int_arg(41)});
  if (taken != nullptr) *taken = out.storage;
  return texts(r);
}

TEST(EvalTiles, NumbersGoThroughTheirSlots) {
  std::vector<i32> taken;
  EXPECT_THAT(with_queue(R"(
    publish_tile %words, %one, %there, %one, %one
    channel_wait %there, %one, %z
    publish_tile %words, %one, %there, %n, %one
    channel_wait %there, %one, %one
    %a, %b = receive_tile %words, %one, %z, %z : i32, i32
    store_view %o, %a, %z [axes = []]
    store_view %o, %b, %one [axes = []])",
                         &taken),
              IsEmpty());
  EXPECT_THAT(taken, ElementsAre(41, 1));
}

TEST(EvalTiles, ElementsNotStoredAreAbsent) {
  EXPECT_THAT(with_queue("publish_tile %words, %z, %there, %n, %n\nchannel_wait %there, %one, %z"),
              ElementsAre("channel_wait waits for phase 0 of slot 1, which no op ends"));
  EXPECT_THAT(
      with_queue("%a = receive_tile %words, %one, %z : i32"),
      ElementsAre("receive_tile reads element [0] of shared memory that nothing has written, "
                  "or only another allocation at the same offset"));
  EXPECT_THAT(with_queue("publish_tile %words, %n, %there, %n, %n"),
              ElementsAre("publish_tile uses slot 41 of 2"));
}

/// The kernel of the file test of the pass persist, after all passes of the machine form.
Kernel counted(const Kernel& tile) {
  Kernel k = clone(tile);
  PassContext context;
  run_pipeline(k, ir_passes(), context);
  EXPECT_TRUE(context.plan->dynamic_scheduler);
  return k;
}

TEST(EvalTiles, AWholeKernelInOrder) {
  const std::string file =
      std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/make_persistent/counter.tir";
  const Kernel tile = parse(read_file(file), file);
  HostTensor<u32> counter({1});
  HostTensor<bf16> x({304, 512}), w({512, 128});
  for (std::size_t i = 0; i < x.storage.size(); ++i) x.storage[i] = bf16(static_cast<float>(i % 7));
  for (std::size_t i = 0; i < w.storage.size(); ++i)
    w.storage[i] = bf16(static_cast<float>(i % 5) - 2);
  HostTensor<i32> n({3}, {1, 0, 3});
  HostTensor<f32> want({304, 128}), got({304, 128}, std::vector<f32>(304 * 128, -1));
  EXPECT_TRUE(evaluate(tile, std::vector{x.view(), w.view(), n.view(), want.view()}).clean());
  // As many programs as tiles, and fewer, of which the first takes most.
  for (const std::int64_t programs : {3, 2, 1}) {
    Kernel machine = counted(tile);
    Builder launch(machine);
    launch.before(machine.terminator(machine.launch()));
    const Value fewer = launch.i32(programs);
    machine[machine.terminator(machine.launch())].operands[0] = fewer;
    for (int again = 0; again < 2; ++again) {
      std::ranges::fill(got.storage, -1.0f);
      const EvalReport r = evaluate(
          machine, std::vector{x.view(), w.view(), n.view(), got.view(), counter.pointer()});
      EXPECT_TRUE(r.clean()) << r.str();
      EXPECT_EQ(got.storage, want.storage);
      EXPECT_THAT(counter.storage, Each(0u));
    }
  }
}

}  // namespace
}  // namespace tegula::ir::eval_tiles_test
