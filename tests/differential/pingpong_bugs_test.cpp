// Ping-pong: bugs that the lowering could have, planted in its code. Each must be caught in the
// simulator, by a finding or by a wrong result.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/differential/scheduled_matmul.h"

namespace tegula::ir::pingpong_bugs_test {
namespace {

using test::all_of;
using test::Bug;

constexpr std::int64_t kGroupThreads = 128, kBothGroups = 256, kWarpgroupWarps = 4;
/// Several tiles for each group of the one program, an odd number; more steps a tile than two
/// rounds of the ring, and no multiple of them.
constexpr test::ProblemOfTiles kOdd{3, 3, 7}, kShort{8, 5, 1};
/// Results go through shared memory of the group's own, between barriers of the group.
constexpr Plan kPlan{.num_warps = 4,
                     .stages = 2,
                     .warps_m = 4,
                     .warps_n = 1,
                     .stage_stores = true,
                     .wgmma = true,
                     .producer_warps = 1,
                     .persistent = true,
                     .pingpong = true};

std::vector<OpId> barriers(const Kernel& k, std::int64_t threads) {
  return all_of(k, Opcode::BarSync,
                [=](const OpData& d) { return d.attrs.i(AttrName::count) == threads; });
}

OpId tile_loop(const Kernel& k) {
  return all_of(k, Opcode::For, [](const OpData& d) { return d.attrs.i(AttrName::pingpong) == 1; })
      .front();
}

/// The branch that a group takes for its own tiles; and what the others carry on.
OpId own_tile(const Kernel& k) {
  for (OpId op : k.ops(k[tile_loop(k)].regions[0]))
    if (k[op].opcode == Opcode::If) return op;
  return {};
}

void set_i32(Kernel& k, OpId op, std::size_t operand, std::int64_t value) {
  Builder b(k);
  b.before(op);
  const Value c = b.i32(value);
  k[op].operands[operand] = c;
}

/// The tile's loop yields the value that it began with, instead of the one that the other
/// warpgroups left.
void carry_on_nothing(Kernel& k, std::size_t carry) {
  const OpId yield = k.terminator(k[own_tile(k)].regions[1]);
  const Value same = k[k[tile_loop(k)].regions[0]].args[1 + carry];
  k[yield].operands[carry] = same;
}

/// The counts of what has been read: of one group's warps.
void count_releases(Kernel& k, std::int64_t count) {
  for (OpId op : all_of(k, Opcode::MbarInit, [](const OpData& d) {
         return d.attrs.i(AttrName::count) == kWarpgroupWarps;
       }))
    k[op].attrs.set(AttrName::count, count);
}

const Bug kBugs[] = {
    {"releases counted as those of both groups", [](Kernel& k) { count_releases(k, 8); },
     "deadlock"},
    {"releases counted as those of fewer warps", [](Kernel& k) { count_releases(k, 2); },
     "mbarrier-misuse"},
    {"the other's slot is not carried on", [](Kernel& k) { carry_on_nothing(k, 0); }},
    {"the other's phase is not carried on", [](Kernel& k) { carry_on_nothing(k, 1); }},
    {"the barrier of a group counts both",
     [](Kernel& k) {
       for (OpId op : barriers(k, kGroupThreads)) k[op].attrs.set(AttrName::count, kBothGroups);
     },
     "deadlock"},
    {"results are read before all of the group have written",
     [](Kernel& k) { k.erase(barriers(k, kGroupThreads).back()); }},
    {"one scratch memory for both groups",
     [](Kernel& k) {
       // The stride from group to group is a constant next to the group's number.
       const OpId warp = all_of(k, Opcode::WarpId).front();
       for (OpId op : all_of(k, Opcode::Mul)) {
         const OpId shift = k[k[op].operands[0]].def;
         const bool of_group =
             shift && k[shift].opcode == Opcode::Shr && k[shift].operands[0] == k[warp].results[0];
         if (of_group) set_i32(k, op, 1, 0);
       }
     }},
    {"no turn is taken", [](Kernel& k) { k.erase(barriers(k, kBothGroups).front()); }},
    {"no turn is passed on", [](Kernel& k) { k.erase(all_of(k, Opcode::BarArrive).back()); }},
    {"nobody has the first turn", [](Kernel& k) { k.erase(all_of(k, Opcode::BarArrive).front()); }},
    {"the turn is passed on to oneself",
     [](Kernel& k) {
       const OpId pass = all_of(k, Opcode::BarArrive).back(),
                  take = barriers(k, kBothGroups).front();
       const Value own = k[take].operands[0];
       k[pass].operands[0] = own;
     }},
    {"every tile is the first group's",
     [](Kernel& k) {
       const OpId mine = k[k[own_tile(k)].operands[0]].def;
       set_i32(k, mine, 0, 0);
     }},
    {"both groups have every tile",
     [](Kernel& k) {
       Builder b(k);
       b.before(own_tile(k));
       const Value always = b.flag(true);
       k[own_tile(k)].operands[0] = always;
     },
     "mbarrier-misuse"},
};

/// Tiles so short that both warpgroups are often after their mainloops at one time.
const Bug kBugsOfShortTiles[] = {
    {"one barrier for both groups",
     [](Kernel& k) {
       for (OpId op : barriers(k, kGroupThreads)) set_i32(k, op, 0, 4);
     },
     "barrier-count"},
};

TEST(PingpongTiles, EveryPlantedBugIsCaught) {
  for (const int ctas : {1, 2}) test::expect_caught(kOdd, kPlan, kBugs, ctas);
  test::expect_caught(kShort, kPlan, kBugsOfShortTiles, 1);
}

/// Machine form describes one group alone: the interpreter computes the same result.
TEST(PingpongTiles, MachineFormMeansTheSame) {
  test::PlannedProduct product({4, 3, 5}, kPlan);
  const auto has_loop = [](const Kernel& machine) { EXPECT_TRUE(tile_loop(machine)); };
  EXPECT_EQ(product.interpret_machine_form(has_loop), "");
}

}  // namespace
}  // namespace tegula::ir::pingpong_bugs_test
