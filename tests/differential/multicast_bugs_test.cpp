// Multicast operands in the simulator: what is copied, and bugs that the lowering could have,
// planted in its code. Each must be caught, by a finding or by a wrong result.
#include <gtest/gtest.h>

#include <vector>

#include "tests/differential/scheduled_matmul.h"

namespace tegula::ir::multicast_bugs_test {
namespace {

using test::all_of;
using test::Bug;
using test::PlannedProduct;
using Problem = test::ProblemOfTiles;

constexpr std::int64_t kBytesOfA = 64 * 32 * 2, kBytesOfB = 32 * 96 * 2;

/// Three rows of tiles: every second column begins with a tile whose neighbour is in another one.
/// Nine tiles: the last is alone.
constexpr Problem kOdd{3, 3, 5};

/// `ahead`: the producer thread finds out the next tile, and what both tiles of the cluster share.
Plan plan_of(bool shares, bool ahead = false) {
  return {.num_warps = 4,
          .stages = 3,
          .warps_m = 4,
          .warps_n = 1,
          .stage_stores = false,
          .wgmma = true,
          .producer_warps = 1,
          .persistent = true,
          .dynamic_scheduler = ahead,
          .multicast = shares};
}

/// `shared` of the clusters' pairs of tiles are in one column.
void expect_bytes(Problem p, std::int64_t shared) {
  SCOPED_TRACE(testing::Message() << p.rows << "x" << p.columns << " tiles, steps " << p.steps);
  PlannedProduct with(p, plan_of(true)), ahead(p, plan_of(true, true)), without(p, plan_of(false));
  EXPECT_EQ(with.run(), "");
  EXPECT_EQ(ahead.run(), "");
  EXPECT_EQ(without.run(), "");
  const std::int64_t all = p.rows * p.columns * p.steps * (kBytesOfA + kBytesOfB);
  EXPECT_EQ(without.bytes_copied(), all);
  EXPECT_EQ(with.bytes_copied(), all - shared * p.steps * kBytesOfB);
  EXPECT_EQ(ahead.bytes_copied(), with.bytes_copied());
}

TEST(MulticastMatmul, AreCopiedOnce) {
  expect_bytes({4, 3, 4}, 6);
  expect_bytes({2, 1, 1}, 1);
  expect_bytes({5, 2, 3}, 4);
  expect_bytes({9, 3, 2}, 12);  // a group of 8 rows and one of one
  expect_bytes({1, 4, 2}, 0);
  expect_bytes({1, 1, 2}, 0);
  expect_bytes(kOdd, 3);
}

/// In machine form each program still loads its own boxes: the interpreter finds the same result.
TEST(MulticastMatmul, MachineFormMeansTheSame) {
  const auto is_cluster = [](const Kernel& machine) { EXPECT_EQ(machine.info.cluster, 2); };
  for (const bool ahead : {false, true}) {
    PlannedProduct product({4, 3, 4}, plan_of(true, ahead));
    EXPECT_EQ(product.interpret_machine_form(is_cluster), "");
  }
}

// ---- planted bugs -------------------------------------------------------------------------------
bool goes_to_both(const OpData& d) { return d.attrs.i(AttrName::cluster_ctas) == 2; }

/// Branches that copy a half to both CTAs, where their condition holds.
std::vector<OpId> shared_branches(const Kernel& k) {
  std::vector<OpId> found;
  for (const OpId load : all_of(k, Opcode::TmaLoad, goes_to_both))
    found.push_back(k[k[load].parent].owner);
  return found;
}

void set_operand(Kernel& k, OpId op, std::size_t operand, std::int64_t value, DType type) {
  Builder b(k);
  b.before(op);
  const Value c = b.constant(Type::scalar(type), value);
  k[op].operands[operand] = c;
}

const Bug kBugs[] = {
    {"each tells its own copying warp alone",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::MapShared)) {
         Builder b(k);
         b.before(op);
         const Value rank = b.op(Opcode::CtaRank, std::initializer_list<Value>{});
         k[op].operands[1] = rank;
       }
     }},
    {"each tells the first copying warp alone",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::MapShared)) set_operand(k, op, 1, 0, DType::i32);
     }},
    {"releases counted as those of one CTA",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::MbarInit,
                                   [](const OpData& d) { return d.attrs.i(AttrName::count) == 8; }))
         k[op].attrs.set(AttrName::count, std::int64_t{4});
     },
     "mbarrier-misuse"},
    {"copied before the other CTA has begun",
     [](Kernel& k) {
       const OpId arrive = all_of(k, Opcode::ClusterArrive).front(),
                  wait = all_of(k, Opcode::ClusterWait).front();
       Builder b(k);
       b.before(arrive);
       b.effect(Opcode::BarSync, {b.i32(0)}, {{AttrName::count, 160}});
       k.erase(arrive);
       k.erase(wait);
     },
     "mbarrier-misuse"},
    {"exit while the other CTA may still arrive",
     [](Kernel& k) {
       k.erase(all_of(k, Opcode::ClusterArrive).back());
       k.erase(all_of(k, Opcode::ClusterWait).back());
     },
     "remote-exit"},
    {"a half for its own CTA alone",
     [](Kernel& k) {
       k[all_of(k, Opcode::TmaLoad, goes_to_both).front()].attrs.erase(AttrName::cluster_ctas);
     },
     "tx-mismatch"},
    {"both bring the first half",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::TmaLoad, goes_to_both))
         for (const std::size_t operand : {1U, 4U}) {
           const OpId sum = k[k[op].operands[operand]].def;
           const Value base = k[sum].operands[0];
           k[op].operands[operand] = base;
         }
     }},
    {"announced are the bytes of the own copies",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::MbarExpectTx))
         k[op].attrs.set(AttrName::bytes, kBytesOfA + kBytesOfB / 2);
     },
     "tx-mismatch"},
    {"tiles of two columns taken for neighbours",
     [](Kernel& k) {
       for (const OpId branch : shared_branches(k)) {
         const Value in_step = k[k[k[branch].operands[0]].def].operands[0];
         k[branch].operands[0] = in_step;
       }
     }},
    {"the last tile taken for one of two",
     [](Kernel& k) {
       for (const OpId op : all_of(k, Opcode::Cast, [&](const OpData& d) {
              return k.type(d.operands[0]) == Type::scalar(DType::i1);
            })) {
         bool is_for_release = false;
         for (const OpId by : all_of(k, Opcode::And))
           is_for_release |=
               k[by].operands[1] == k[op].results[0] || k[by].operands[0] == k[op].results[0];
         if (is_for_release) set_operand(k, op, 0, 1, DType::i1);
       }
     }},
};

TEST(MulticastMatmul, EveryPlantedBugIsCaught) {
  for (const bool ahead : {false, true}) test::expect_caught(kOdd, plan_of(true, ahead), kBugs);
}

}  // namespace
}  // namespace tegula::ir::multicast_bugs_test
