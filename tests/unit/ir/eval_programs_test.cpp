// Programs that communicate through memory: one waits for another that starts later, reads what was
// written before a release, and compares and swaps in one step.
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_programs_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Program 1 writes 7 and sets the flag; program 0 waits for the flag and doubles what it reads.
/// Each then takes a turn: only the first finds 0 there.
constexpr std::string_view kHandOver =
    R"(kernel @m tile (%flag: ptr<u32>, %turn: ptr<u32>, %x: view<?xi32, inout>, %o: view<?xi32, out>, %won: view<?xu32, out>) {
    launch {
      %two = const [value = 2] : i32
      %one = const [value = 1] : i32
      yield %two, %one, %one
    }
    %zero = const [value = 0] : i32
    %seven = const [value = 7] : i32
    %none = const [value = 0] : u32
    %set = const [value = 1] : u32
    %p = program_id [axis = 0] : i32
    %waits = cmp %p, %zero [pred = "eq"] : i1
    if %waits {
      wait_until %flag, %set [kind = "ge", scope = "gpu"]
      %read = load_view %x, %zero [axes = []] : i32
      %twice = add %read, %read : i32
      store_view %o, %twice, %zero [axes = []]
    } {
      store_view %x, %seven, %zero [axes = []]
      atomic_store %flag, %set [sem = "SEM", scope = "gpu"]
    }
    %was = atomic_cas %turn, %none, %set [sem = "relaxed", scope = "gpu"] : u32
    %now = atomic_load %turn [sem = "acquire", scope = "gpu"] : u32
    %sum = add %was, %now : u32
    store_view %won, %sum, %p [axes = []]
  })";

struct Ran {
  std::vector<std::string> findings;
  i32 out = 0;
  std::vector<u32> won;
};

Ran hand_over(std::string_view order) {
  HostTensor<u32> flag({1}), turn({1}), won({2});
  HostTensor<i32> x({1}), out({1});
  std::string text(kHandOver);
  text.replace(text.find("SEM"), 3, order);
  const EvalReport r =
      run(text, {flag.pointer(), turn.pointer(), x.view(), out.view(), won.view()});
  return {texts(r), out.storage[0], won.storage};
}

TEST(EvalPrograms, AReleaseHandsOver) {
  const Ran r = hand_over("release");
  EXPECT_THAT(r.findings, IsEmpty());
  EXPECT_EQ(r.out, 14);
  EXPECT_THAT(r.won, ::testing::UnorderedElementsAre(1u, 2u));
}

TEST(EvalPrograms, ARelaxedStoreOrdersNothing) {
  EXPECT_THAT(hand_over("relaxed").findings, Contains(HasSubstr("without an order")));
}

/// Each of three programs writes its number plus 1; after the barrier each sums what all wrote.
constexpr std::string_view kMeeting =
    R"(kernel @m tile (%x: view<?xi32, inout>, %o: view<?xi32, out>, %later: view<?xu64, out>) {
    launch {
      %three = const [value = 3] : i32
      %one = const [value = 1] : i32
      yield %three, %one, %one
    }
    %zero = const [value = 0] : i32
    %unit = const [value = 1] : i32
    %p = program_id [axis = 0] : i32
    %v = add %p, %unit : i32
    %begin = read_register [kind = "clock"] : u64
    store_view %x, %v, %p [axes = []]
    grid_barrier
    %all = load_view %x, %zero [axes = [0]] : tile<4xi32>
    %none = const [value = 0] : i32
    %kept = fill_absent %all, %none : tile<4xi32>
    %sum = reduce %kept [axis = 0, kind = "sum"] : i32
    store_view %o, %sum, %p [axes = []]
    %end = read_register [kind = "clock"] : u64
    %cycles = sub %end, %begin : u64
    store_view %later, %cycles, %p [axes = []]
  })";

EvalReport meet(bool meets, HostTensor<i32>& out, HostTensor<u64>& cycles) {
  HostTensor<i32> x({3});
  std::string text(kMeeting);
  if (!meets) text.erase(text.find("grid_barrier"), 12);
  return run(text, {x.view(), out.view(), cycles.view()});
}

TEST(EvalPrograms, AGridBarrierMakesAllWritesVisible) {
  HostTensor<i32> out({3});
  HostTensor<u64> cycles({3});
  const EvalReport r = meet(true, out, cycles);
  EXPECT_TRUE(r.clean()) << r.str();
  EXPECT_THAT(out.storage, ::testing::Each(6));
  EXPECT_THAT(cycles.storage, ::testing::Each(::testing::Gt(0u)));
}

TEST(EvalPrograms, WithoutABarrierTheyRace) {
  HostTensor<i32> out({3});
  HostTensor<u64> cycles({3});
  EXPECT_THAT(texts(meet(false, out, cycles)), Contains(HasSubstr("without an order")));
}

}  // namespace
}  // namespace tegula::ir::eval_programs_test
