// Stores by TMA in the simulator, with bugs planted that the lowering could have: each must be
// caught, by a finding or by a wrong result.
#include <gtest/gtest.h>

#include "tests/differential/scheduled_matmul.h"

namespace tegula::ir::tma_store_bugs_test {
namespace {

using test::all_of;
using test::Bug;
using test::PlannedProduct;

/// Six tiles a program, of 64 x 96.
constexpr test::ProblemOfTiles kTiles{4, 6, 2};

Plan plan_of(int columns) {
  return {.num_warps = 4,
          .stages = 3,
          .warps_m = 4,
          .warps_n = 1,
          .stage_stores = false,
          .wgmma = true,
          .producer_warps = 1,
          .persistent = true,
          .epilogue_tile_n = columns,
          .tma_store = true};
}

/// In machine form it is a store as any other.
TEST(StoresByTma, MachineFormMeansTheSame) {
  PlannedProduct product(kTiles, plan_of(32));
  const auto is_marked = [](const Kernel& machine) {
    for (OpId op : all_of(machine, Opcode::StoreView))
      EXPECT_EQ(machine[op].attrs.i(AttrName::tma), 1);
  };
  EXPECT_EQ(product.interpret_machine_form(is_marked), "");
}

void erase_all(Kernel& k, Opcode opcode) {
  for (OpId op : all_of(k, opcode)) k.erase(op);
}
void allow_one_more(Kernel& k) {
  for (OpId op : all_of(k, Opcode::TmaWait)) {
    const std::int64_t count = k[op].attrs.i(AttrName::count);
    k[op].attrs.set(AttrName::count, count + 1);
  }
}
bool is_of_staging(const Kernel& k, const OpData& d) {
  return d.attrs.i(AttrName::count) == 128 && k.type(d.operands[0]).is_scalar() &&
         !d.operands.empty();
}
/// The warps' meeting before the first op of that kind.
void erase_meeting_before(Kernel& k, Opcode opcode) {
  OpId last;
  bool found = false;
  walk(k, k.body(), [&](OpId op) {
    if (found) return;
    if (k[op].opcode == opcode) found = true;
    if (!found && k[op].opcode == Opcode::BarSync && is_of_staging(k, k[op])) last = op;
  });
  ASSERT_TRUE(last) << "no barrier";
  k.erase(last);
}

const Bug kBugs[] = {
    {"no wait until buffers have been read", [](Kernel& k) { erase_all(k, Opcode::TmaWait); },
     "early-overwrite"},
    {"one store too many may be unread", allow_one_more, "early-overwrite"},
    {"no wait before the exit", [](Kernel& k) { k.erase(all_of(k, Opcode::TmaWait).back()); },
     "async-at-exit"},
    {"stores that are no groups", [](Kernel& k) { erase_all(k, Opcode::TmaCommit); },
     "early-overwrite"},
    {"writes not fenced for TMA",
     [](Kernel& k) {
       for (OpId op : all_of(k, Opcode::StMatrix)) {
         OpId next = k[op].next;
         while (k[next].opcode != Opcode::FenceProxyAsync) next = k[next].next;
         k.erase(next);
         return;
       }
     },
     "proxy-fence"},
    {"stored before all warps have written",
     [](Kernel& k) { erase_meeting_before(k, Opcode::TmaStore); }, "async-unordered"},
    {"stored by every thread",
     [](Kernel& k) {
       const OpId branch = k[k[all_of(k, Opcode::TmaStore).front()].parent].owner;
       Builder b(k);
       b.before(branch);
       const Value always = b.flag(true);
       k[branch].operands[0] = always;
     },
     "early-overwrite"},
};

/// Three buffers, two and one; the warps synchronise once a store or twice.
TEST(StoresByTma, EveryPlantedBugIsCaught) {
  for (const int columns : {32, 48, 96}) {
    SCOPED_TRACE(columns);
    test::expect_caught(kTiles, plan_of(columns), kBugs);
  }
}

/// Three buffers do not need the second barrier.
TEST(StoresByTma, BuffersAreWrittenWhenTheyAreFree) {
  const Bug bug[] = {{"written before one thread has waited",
                      [](Kernel& k) { erase_meeting_before(k, Opcode::StMatrix); },
                      "early-overwrite"}};
  for (const int columns : {48, 96}) {
    SCOPED_TRACE(columns);
    test::expect_caught(kTiles, plan_of(columns), bug);
  }
}

}  // namespace
}  // namespace tegula::ir::tma_store_bugs_test
