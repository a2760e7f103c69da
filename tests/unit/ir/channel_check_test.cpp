// The checker of rings finds nothing in what the passes make, and something in every way to break
// it.
#include "ir/analysis/channel_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ir/analysis/channel_trace.h"
#include "ir/builder.h"
#include "ir/pipeline.h"
#include "ir/text.h"
#include "support/text.h"

namespace tegula::ir::channel_check_test {
namespace {

using testing::HasSubstr;

std::string text_of(const std::string& file) {
  return read_file(std::string(TEGULA_SOURCE_DIR) + "/" + file);
}

Kernel machine_of(const std::string& text, const std::string& file, const std::string& changes) {
  Kernel k = parse(text, file);
  k.info.target = ir::Target("sm_90a");
  PassContext context;
  context.planned = parse_plan_request(changes);
  for (const Pass& pass : ir_passes()) {
    if (pass.name == "check_channels") break;
    pass.run(k, context);
    k.info.form = pass.leaves;
  }
  return k;
}

Kernel machine(const std::string& file, const std::string& changes = "") {
  return machine_of(text_of(file), file, changes);
}

const std::string kProduct = "tests/filetests/pipeline_wgmma/loop.tir",
                  kAttention = "tests/unit/dsl/golden/attention.tir",
                  kShared = "tests/filetests/make_persistent/multicast.tir",
                  kCounter = "tests/filetests/make_persistent/counter.tir",
                  kAhead = "tests/filetests/make_persistent/multicast_ahead.tir",
                  kInTurn = "tests/filetests/make_persistent/alternate.tir",
                  kAuxiliaryLoads = "tests/filetests/pipeline_wgmma/auxiliary_loads.tir",
                  kGraph = "tests/filetests/pipeline_wgmma/dot_graph.tir",
                  kGathered = "tests/filetests/pipeline_wgmma/gathered.tir";

std::string fault_of(const Kernel& k, bool with_producer = true) {
  const auto fault = check_channels(k, with_producer);
  return fault ? fault->what : "nothing";
}

TEST(ChannelCheck, AcceptsTheOutputOfPasses) {
  for (const std::string& file :
       {kProduct, kAttention, kShared, kCounter, kAhead, kInTurn, kAuxiliaryLoads})
    for (const char* plan : {"", "stages=2", "persistent=1", "stages=3 persistent=1",
                             "persistent=1 dynamic_scheduler=1", "multicast=1 dynamic_scheduler=1",
                             "pingpong=1", "pingpong=1 multicast=1", "pingpong=1 stages=3"}) {
      SCOPED_TRACE(file + " " + plan);
      const Kernel k = machine(file, plan);
      int copies = 0;
      walk(k, k.body(), [&](OpId op) { copies += k[op].opcode == Opcode::CopyTma; });
      ASSERT_GT(copies, 0);
      EXPECT_EQ(fault_of(k, false), "nothing");
      EXPECT_EQ(fault_of(k, true), "nothing");
    }
}

/// Applies `change` to each op of that kind by itself; gives the faults.
std::vector<std::string> faults(const std::string& file, const std::string& plan, Opcode kind,
                                const std::function<void(Kernel&, OpId)>& change) {
  std::vector<std::string> found;
  const Kernel whole = machine(file, plan);
  std::size_t count = 0;
  walk(whole, whole.body(), [&](OpId op) { count += whole[op].opcode == kind; });
  for (std::size_t n = 0; n < count; ++n) {
    Kernel k = machine(file, plan);
    std::vector<OpId> ops;
    walk(k, k.body(), [&](OpId op) {
      if (k[op].opcode == kind) ops.push_back(op);
    });
    change(k, ops[n]);
    found.push_back(fault_of(k));
  }
  return found;
}

void erase(Kernel& k, OpId op) { k.erase(op); }

void expect_all(const std::vector<std::string>& found) {
  EXPECT_FALSE(found.empty());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NE(found[i], "nothing") << "op " << i;
}

class EveryBreak : public testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  std::vector<std::string> broken(Opcode kind, const std::function<void(Kernel&, OpId)>& change) {
    return faults(GetParam().first, GetParam().second, kind, change);
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, EveryBreak,
                         testing::Values(std::pair(kProduct, std::string("persistent=1")),
                                         std::pair(kShared, std::string()),
                                         std::pair(kAttention, std::string("persistent=1")),
                                         std::pair(kCounter, std::string("stages=3")),
                                         std::pair(kInTurn, std::string()),
                                         std::pair(kInTurn, std::string("multicast=1"))));

TEST_P(EveryBreak, CopyLeftOut) { expect_all(broken(Opcode::CopyTma, erase)); }
TEST_P(EveryBreak, AnnouncementLeftOut) { expect_all(broken(Opcode::ChannelExpectTx, erase)); }
/// With separate rings for keys and values, some waits of the copies are redundant: the wait for
/// the other ring passes later.
TEST_P(EveryBreak, WaitLeftOut) {
  const Kernel whole = machine(GetParam().first, GetParam().second);
  std::vector<bool> must;
  walk(whole, whole.body(), [&](OpId op) {
    if (whole[op].opcode != Opcode::ChannelWait) return;
    bool copies = false;
    for (OpId o : whole.ops(whole[op].parent)) copies |= whole[o].opcode == Opcode::CopyTma;
    must.push_back(!copies || GetParam().first != kAttention);
  });
  const auto found = broken(Opcode::ChannelWait, erase);
  ASSERT_EQ(found.size(), must.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    if (must[i]) {
      EXPECT_NE(found[i], "nothing") << "op " << i;
    }
}
TEST_P(EveryBreak, OtherPhase) {
  expect_all(broken(Opcode::ChannelWait, [](Kernel& k, OpId op) {
    Builder b(k);
    b.before(op);
    const Value other = b.op(Opcode::Xor, {k[op].operands[2], b.i32(1)});
    k[op].operands[2] = other;
  }));
}
TEST_P(EveryBreak, WrongBytes) {
  for (const std::int64_t by : {-16, 16})
    expect_all(broken(Opcode::ChannelExpectTx, [&](Kernel& k, OpId op) {
      const std::int64_t bytes = k[op].attrs.i(AttrName::bytes);
      k[op].attrs.set(AttrName::bytes, bytes + by);
    }));
}

TEST(ChannelCheck, ReleaseLeftOut) {
  // The one in the loop: nobody waits for the last, after it.
  EXPECT_THAT(faults(kProduct, "", Opcode::ChannelRelease, erase).front(), HasSubstr("deadlock"));
}

/// The other program is not told, or, where there is none, it is waited for: but for the last
/// release, after the loop.
TEST(ChannelCheck, ReleasesOfAClusterGoAstray) {
  const auto tell = [](bool both) {
    return faults(kShared, "", Opcode::ChannelRelease, [&](Kernel& k, OpId op) {
      Builder b(k);
      b.before(op);
      const Value to_both = b.flag(both);
      k[op].operands[3] = to_both;
    });
  };
  expect_all(tell(false));
  EXPECT_THAT(tell(true).front(), HasSubstr("deadlock"));
}

/// Each program takes the other's box for its own, whether there is one or not.
TEST(ChannelCheck, HalvesThatAreNotLoaded) {
  expect_all(faults(kShared, "", Opcode::CopyTma, [](Kernel& k, OpId op) {
    Builder b(k);
    b.before(op);
    const Value same = b.flag(true);
    if (k[op].operands.size() == 7)
      k[op].operands.back() = same;
    else
      k.erase(op);
  }));
}

TEST(ChannelCheck, TilesByACounter) {
  // The last release is that of the slot with the number.
  const auto kept = faults(kCounter, "", Opcode::ChannelRelease, erase);
  EXPECT_THAT(kept.back(), HasSubstr("deadlock"));
  for (const std::string& fault : faults(kCounter, "", Opcode::PublishTile, erase))
    EXPECT_THAT(fault, HasSubstr("deadlock"));
  // Expected and loaded, but read before the wait for it.
  const auto early = faults(kCounter, "", Opcode::ReceiveTile, [](Kernel& k, OpId op) {
    OpId wait = k[op].prev;
    while (k[wait].opcode != Opcode::ChannelWait) wait = k[wait].prev;
    k.unlink(op);
    k.insert_before(wait, op);
  });
  EXPECT_THAT(early, testing::ElementsAre("threads read a slot that was not waited for"));
}

/// A program whose tile has no rows makes the trips of its neighbour's tile.
TEST(ChannelCheck, TripsOfTheOtherTile) {
  expect_all(faults(kAhead, "", Opcode::Or, [](Kernel& k, OpId op) {
    const Value mine = k[op].operands[0];
    k.replace_all_uses(k[op].results[0], mine);
  }));
}

/// Trips that a table has for an entry of an entry of a table: in a cluster, too, few are followed.
TEST(ChannelCheck, TripsOfEntriesOfEntries) {
  std::string text = text_of(kCounter);
  const std::string read = "  %deep = load_view %n, %pid [axes = []] : i32\n";
  const std::size_t at = text.find(read);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, read.size(),
               "  %first = load_view %n, %pid [axes = []] : i32\n"
               "  %second = load_view %n, %first [axes = []] : i32\n"
               "  %third = load_view %n, %second [axes = []] : i32\n"
               "  %deep = load_view %n, %third [axes = []] : i32\n");
  Kernel k = machine_of(text, kCounter, "persistent=0");
  k.info.cluster = 2;
  const ChannelExtents extents{.extent = 10, .scalar = 10, .rank = 1};
  const std::size_t events = channel_trace(k, ChannelRole::Producer, extents).size();
  EXPECT_GT(events, 10U);
  EXPECT_LT(events, 1000U);
}

/// The auxiliary ring; the operands' barriers guard it, too, as the copies are in order.
TEST(ChannelCheck, AuxLoads) {
  for (const char* plan : {"", "persistent=1"}) {
    SCOPED_TRACE(plan);
    for (const Opcode op : {Opcode::CopyTma, Opcode::ChannelExpectTx, Opcode::ChannelRelease})
      expect_all(faults(kAuxiliaryLoads, plan, op, erase));
    EXPECT_NE(faults(kAuxiliaryLoads, plan, Opcode::ChannelWait, erase).back(), "nothing");
  }
}

/// Rows that threads copy, one tile each, tiles in turn, and clusters whose other operand is
/// multicast: each CTA waits for its own copies, at its own barriers.
class GatheredRows : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<std::string> broken(Opcode kind,
                                         const std::function<void(Kernel&, OpId)>& change) {
    return faults(kGathered, GetParam(), kind, change);
  }
};
INSTANTIATE_TEST_SUITE_P(Plans, GatheredRows,
                         testing::Values("", "dynamic_scheduler=0", "multicast=0 persistent=1",
                                         "multicast=0 persistent=1 dynamic_scheduler=1", "stages=3",
                                         "stages=2", "persistent=0"));

TEST_P(GatheredRows, AcceptsTheOutputOfPasses) {
  const Kernel k = machine(kGathered, GetParam());
  EXPECT_EQ(fault_of(k, false), "nothing");
  EXPECT_EQ(fault_of(k, true), "nothing");
}

TEST_P(GatheredRows, CopiesAreWaitedFor) {
  const auto is_found =
      testing::Contains("an MMA reads what threads stored without a fence and a barrier after it");
  EXPECT_THAT(broken(Opcode::AsyncWait, erase), is_found);
  EXPECT_THAT(broken(Opcode::AsyncCommit, erase), is_found);
  EXPECT_THAT(broken(Opcode::AsyncWait,
                     [](Kernel& k, OpId op) {
                       k[op].attrs.set(AttrName::count, k[op].attrs.i(AttrName::count) + 1);
                     }),
              is_found);
}

/// One barrier publishes the copies. The other one, after the loop of a persistent kernel,
/// separates a tile's reads from the copies of the next tile.
TEST_P(GatheredRows, BarriersOfATile) {
  const auto found = broken(Opcode::CtaBarrier, erase);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_THAT(found.front(), HasSubstr("without a fence and a barrier after it"));
  const bool is_persistent = machine(kGathered, GetParam()).info.persistent;
  EXPECT_THAT(
      found.back(),
      HasSubstr(is_persistent ? "before all warps have synchronised after its MMAs" : "nothing"));
}

TEST_P(GatheredRows, RingsAreAsAnyOther) {
  for (const Opcode op : {Opcode::CopyTma, Opcode::ChannelExpectTx}) expect_all(broken(op, erase));
  EXPECT_THAT(broken(Opcode::ChannelRelease, erase).front(), HasSubstr("deadlock"));
}

/// Threads' loads from a ring before the wait for a slot or after its release.
TEST(ChannelCheck, ReadAtTheWrongTime) {
  const auto moved = [](Opcode where, bool behind) {
    return faults(kAuxiliaryLoads, "", Opcode::SmemLoad, [&](Kernel& k, OpId op) {
      OpId to = op;
      while (k[to].opcode != where) to = behind ? k[to].next : k[to].prev;
      if (behind) to = k[to].next;
      k.unlink(op);
      k.insert_before(to, op);
    });
  };
  EXPECT_THAT(moved(Opcode::ChannelWait, false),
              testing::ElementsAre("threads read a slot that was not waited for"));
  EXPECT_THAT(moved(Opcode::ChannelRelease, true),
              testing::ElementsAre("threads read a slot that was not waited for"));
}

/// A warpgroup that does not wait for its turn takes the phase of an older round for its own; one
/// that does not pass it on, or whose tile ends elsewhere in the ring than the others count, stops
/// the others.
TEST(ChannelCheck, Pingpong) {
  for (const char* plan : {"", "stages=2", "stages=3", "stages=3 multicast=1"}) {
    SCOPED_TRACE(plan);
    // Tiles of eight steps: on more than four slots nobody can be two rounds ahead.
    if (*plan != 0) {
      EXPECT_THAT(faults(kInTurn, plan, Opcode::OrderWait, erase),
                  testing::ElementsAre("an MMA reads a slot that was filled for another tile"));
    }
    EXPECT_THAT(faults(kInTurn, plan, Opcode::OrderArrive, erase),
                testing::ElementsAre(HasSubstr("deadlock")));
    for (const std::size_t carry : {0U, 1U})
      expect_all(faults(kInTurn, plan, Opcode::OrderArrive, [&](Kernel& k, OpId op) {
        const OpId yield = k.terminator(k[op].parent);
        Builder b(k);
        b.before(yield);
        const Value other = b.op(Opcode::Xor, {k[yield].operands[carry], b.i32(1)});
        k[yield].operands[carry] = other;
      }));
  }
}

TEST(ChannelCheck, ReleaseBeforeTheMmaIsDone) {
  const auto found = faults(kProduct, "", Opcode::DotWait, [](Kernel& k, OpId op) {
    k[op].attrs.set(AttrName::count, k[op].attrs.i(AttrName::count) + 1);
  });
  EXPECT_THAT(found.front(), HasSubstr("released while an MMA that reads it is in flight"));
}

/// Tiles that threads store for the wgmmas of all warpgroups.
class StoredTiles : public testing::Test {
 protected:
  static std::vector<std::string> broken(Opcode kind,
                                         const std::function<void(Kernel&, OpId)>& change) {
    return faults(kGraph, "", kind, change);
  }
  /// Barriers of the loop, before a dot that reads what was stored.
  static bool publishes(const Kernel& k, OpId barrier) {
    return k[barrier].attrs.i(AttrName::generic_proxy) == 1;
  }
};

TEST_F(StoredTiles, AcceptsTheOutputOfPasses) {
  for (const char* plan : {"", "stages=2", "stages=3 persistent=1"}) {
    SCOPED_TRACE(plan);
    const Kernel k = machine(kGraph, plan);
    int stores = 0;
    walk(k, k.body(), [&](OpId op) { stores += k[op].opcode == Opcode::SmemStore; });
    EXPECT_EQ(stores, 1);
    EXPECT_EQ(fault_of(k, false), "nothing");
    EXPECT_EQ(fault_of(k, true), "nothing");
  }
}

TEST_F(StoredTiles, RingsAreAsAnyOther) {
  for (const Opcode op : {Opcode::CopyTma, Opcode::ChannelExpectTx}) expect_all(broken(op, erase));
  EXPECT_THAT(broken(Opcode::ChannelRelease, erase).front(), HasSubstr("deadlock"));
  EXPECT_THAT(broken(Opcode::DotWait,
                     [](Kernel& k, OpId op) {
                       k[op].attrs.set(AttrName::count, k[op].attrs.i(AttrName::count) + 1);
                     }),
              testing::Contains(HasSubstr("released while an MMA that reads it is in flight")));
}

TEST_F(StoredTiles, BarrierOrFenceLeftOut) {
  const auto without = [](const std::function<void(Kernel&, OpId)>& change) {
    return broken(Opcode::CtaBarrier, [&](Kernel& k, OpId op) {
      if (publishes(k, op)) change(k, op);
    });
  };
  const auto is_found =
      testing::Contains("an MMA reads what threads stored without a fence and a barrier after it");
  EXPECT_THAT(without(erase), is_found);
  EXPECT_THAT(without([](Kernel& k, OpId op) { k[op].attrs.erase(AttrName::generic_proxy); }),
              is_found);
}

/// In one slot the next iteration's store meets the reads of this one.
TEST_F(StoredTiles, OneSlotInPlaceOfTwo) {
  EXPECT_THAT(
      broken(Opcode::SmemStore,
             [](Kernel& k, OpId op) {
               Builder b(k);
               b.before(op);
               const Value slot = k[op].operands[2], none = b.i32(0);
               k.replace_all_uses(slot, none);
             }),
      testing::ElementsAre("threads overwrite a slot before all warps have synchronised after its "
                           "MMAs"));
}

/// A store moved after the dots that read the slot.
TEST_F(StoredTiles, StoreWhileItIsRead) {
  EXPECT_THAT(broken(Opcode::SmemStore,
                     [](Kernel& k, OpId op) {
                       OpId to = op;
                       while (k[to].opcode != Opcode::DotWait) to = k[to].next;
                       Builder b(k);
                       b.before(to);
                       b.create(Opcode::SmemStore, k[op].operands, std::span<const Type>());
                     }),
              testing::ElementsAre("threads overwrite a slot while an MMA reads it"));
}

}  // namespace
}  // namespace tegula::ir::channel_check_test
