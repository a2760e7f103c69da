// The warp scheduler barrier: two, three or four warpgroups take turns, one at a time. The tests
// insert each warpgroup's work during its turn into the lowered code.
#include <gtest/gtest.h>

#include "codegen/lower/lower_simt.h"
#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/fuzz/run_program.h"

namespace tegula::warp_scheduler_barrier_test {
namespace {

using namespace ir;

constexpr int kRounds = 3, kSeeds = 6;

constexpr const char* kTurns =
    R"(kernel @turns machine target(sm_90a) threads({}) (%o: view<?xi32, inout, align=16, strides=1> [arg = 0]) {{
  launch {{
    %one = const [value = 1] : i32
    yield %one, %one, %one
  }}
  %zero = const [value = 0] : i32
  %step = const [value = 1] : i32
  %rounds = const [value = {}] : i32
  store_view %o, %zero, %zero [axes = []]
  order_init
  for %zero, %rounds, %step {{ (%i: i32)
    order_wait
    order_arrive
    yield
  }}
  order_drain
}})";

OpId only(const ir::Kernel& k, Opcode opcode, bool in_loop) {
  OpId found;
  walk(k, k.body(), [&](OpId op) {
    const OpId owner = k[k[op].parent].owner;
    if (k[op].opcode == opcode && (owner && k[owner].opcode == Opcode::For) == in_loop) found = op;
  });
  EXPECT_TRUE(found) << info(opcode).mnemonic;
  return found;
}

/// In its turn, a warpgroup appends its number to the number in memory, in base 5.
void append_in_turn(ir::Kernel& k) {
  Builder b(k);
  b.before(only(k, Opcode::BarArrive, true));
  const Value warp = b.op(Opcode::WarpId, std::initializer_list<Value>{}),
              lane = b.op(Opcode::LaneId, std::initializer_list<Value>{});
  const Value place = b.op(Opcode::Or, {b.op(Opcode::And, {warp, b.i32(3)}), lane});
  const RegionId outer = b.region();
  b.at_end(k[b.make_if(b.cmp("eq", place, b.i32(0)), {})].regions[0]);
  Value out;  // pointer from the argument that the kernel clears
  for (const Param& p : k.params())
    if (p.attrs.s(AttrName::component) == "ptr") out = p.value;
  const Value group = b.add(b.op(Opcode::Shr, {warp, b.i32(2)}), b.i32(1));
  const Value before =
      b.op(Opcode::LdGlobal, {out}, Type::scalar(DType::i32), {{AttrName::width, 1}});
  b.effect(Opcode::StGlobal, {out, b.add(b.mul(before, b.i32(5)), group)}, {{AttrName::width, 1}});
  b.at_end(outer);
}

struct Ran {
  std::string findings;
  std::int64_t order;
};

Ran run(const ir::Kernel& simt, std::uint64_t seed) {
  fuzz::Arguments args{
      {.dtype = DType::i32, .is_view = true, .dims = {1}, .strides = {1}, .bytes = {}}};
  args[0].bytes.resize(4);
  args[0].put(0, Cell{.i = 0});
  const sim::Report report = fuzz::simulate(simt, {1, 1, 1}, args, seed, 1'000'000);
  return {report.clean() ? "" : report.str(), args[0].at(0).i};
}

ir::Kernel lowered(int groups) {
  ir::Kernel k = parse(fmt::format(kTurns, groups * 128, kRounds), "turns.tir");
  PassContext context;
  context.plan = Plan{.num_warps = groups * 4, .warp_scheduler_barrier = true};
  codegen::lower_simt(k, context);
  append_in_turn(k);
  verify_or_throw(k, "what is done in a turn");
  return k;
}

/// Numbers of the warpgroups in the order in which they must have had their turns.
std::int64_t in_order(int groups) {
  std::uint32_t all = 0;
  for (int round = 0; round < kRounds; ++round)
    for (int g = 1; g <= groups; ++g) all = all * 5 + static_cast<std::uint32_t>(g);
  return static_cast<std::int32_t>(all);
}

class WarpSchedulerBarrier : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Warpgroups, WarpSchedulerBarrier, testing::Values(2, 3, 4),
                         testing::PrintToStringParamName());

TEST_P(WarpSchedulerBarrier, GoRound) {
  const ir::Kernel k = lowered(GetParam());
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Ran ran = run(k, seed);
    EXPECT_EQ(ran.findings, "");
    EXPECT_EQ(ran.order, in_order(GetParam())) << "seed " << seed;
  }
}

/// The last warpgroup does not hand over to the first, or the first never starts: all wait forever.
TEST_P(WarpSchedulerBarrier, StopWhereOneIsNotPassedOn) {
  for (const bool starts : {false, true}) {
    ir::Kernel k = lowered(GetParam());
    const OpId arrive = only(k, Opcode::BarArrive, starts);
    if (starts) {
      const OpId next = k[k[k[arrive].operands[0]].def].opcode == Opcode::Add
                            ? k[k[arrive].operands[0]].def
                            : OpId();
      ASSERT_TRUE(next);
      Builder b(k);
      b.before(next);
      k[next].operands[0] = b.i32(GetParam());  // nobody's
    } else {
      k.erase(arrive);
    }
    EXPECT_NE(run(k, 1).findings.find("deadlock"), std::string::npos) << run(k, 1).findings;
  }
}

/// A warpgroup that does not wait for its turn.
TEST_P(WarpSchedulerBarrier, AreOutOfOrderWithoutWaiting) {
  ir::Kernel k = lowered(GetParam());
  k.erase(only(k, Opcode::BarSync, true));
  bool found = false;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Ran ran = run(k, seed);
    found = found || !ran.findings.empty() || ran.order != in_order(GetParam());
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace tegula::warp_scheduler_barrier_test
