// Channels of stores whose code waits for a store too few, or lacks a meeting of warps: such
// mistakes are found, so that no wait is longer than it must be. Two warpgroups store two tiles one
// after the other, each in bf16 and f32.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "codegen/check/simt_check.h"
#include "ir/plan_request.h"
#include "tests/compiled.h"
#include "tests/property/loop_shapes.h"

namespace tegula::ir::store_channel_bugs_test {
namespace {

constexpr int kIterations = 2;

class Scheduled {
 public:
  explicit Scheduled(const std::string& channels) : shape_(test::stored_twice()) {
    want_ = shape_.wanted(kIterations);
    Kernel tile = shape_.traced();
    tile.info.target = Target("sm_90a");
    runtime::CompileRequest request;
    request.device = Device::sim();
    request.target = tile.info.target;
    request.planned = parse_plan_request(
        "schedule sm_90a { roles producer(warps 1) consumer(warps 8) dots dot#0 wgmma "
        "tiles serpentine channel ab tma slots 2 load#0 load#1 " +
        channels +
        " loop#0 { load#0 producer 0.0 load#1 producer 0.1 dot#0 consumer 0.0 in_flight 1 } }");
    compiled_ = test::optimized(tile, request);
  }

  /// How it is wrong with this mistake; empty: it is not.
  std::string fault(const std::function<void(Kernel&)>& plant) const {
    Kernel k = clone(compiled_.simt);
    plant(k);
    if (const auto faults = codegen::find_simt_faults(k); !faults.empty())
      return "the check: " + std::string(sim::name(faults.front().kind));
    for (std::uint64_t seed = 1; seed <= 8; ++seed)
      if (std::string how = shape_.fault(compiled_.tile, k, kIterations, want_, seed); !how.empty())
        return how;
    return "";
  }

  /// Plants the mistake in each of these ops by itself, or in all of them.
  void expect_caught(const char* what, const std::function<bool(const OpData&)>& wanted,
                     void (*plant)(Kernel&, OpId), bool by_itself = true) const {
    const auto places = [&](const Kernel& k) {
      return ops_where(k, k.body(), [&](OpId op) { return wanted(k[op]); });
    };
    const std::size_t count = places(compiled_.simt).size(), cases = by_itself ? count : 1;
    EXPECT_GT(count, 0u) << what;
    for (std::size_t i = 0; i < cases; ++i) {
      const std::string how = fault([&](Kernel& k) {
        const std::vector<OpId> all = places(k);
        if (by_itself) return plant(k, all[i]);
        for (OpId op : all) plant(k, op);
      });
      std::printf("%s, %zu of %zu: %s\n", what, i + 1, cases, how.c_str());
      EXPECT_NE(how, "") << what << " " << i;
    }
  }

 private:
  test::LoopShape shape_;
  std::vector<std::vector<double>> want_;
  runtime::Compilation compiled_;
};

/// Meetings of a warpgroup, and of both, which the stores have alone: the loop has MMAs.
bool is_meeting(const OpData& d) {
  const std::int64_t threads = d.attrs.i(AttrName::count);
  return d.opcode == Opcode::BarSync && (threads == 128 || threads == 256);
}

bool is_wait(const OpData& d) { return d.opcode == Opcode::TmaWait; }
void allow_one_more(Kernel& k, OpId wait) {
  k[wait].attrs.set(AttrName::count, k[wait].attrs.i(AttrName::count) + 1);
}

/// Buffers that the stores go round evenly, and not; one ring for both, in which the warpgroups'
/// parts change.
TEST(StoreChannelBugs, EachWaitAndBarrierIsNeeded) {
  for (const char* channels : {"channel d store slots 4 store#1 columns 16",
                               "channel c store slots 3 store#0 store#1 columns 32"}) {
    SCOPED_TRACE(channels);
    std::printf("== %s\n", channels);
    const Scheduled scheduled(channels);
    EXPECT_EQ(scheduled.fault([](Kernel&) {}), "") << "without a mistake";
    scheduled.expect_caught("one store too many may be unread", is_wait, allow_one_more);
    scheduled.expect_caught("the warps do not meet", is_meeting,
                            [](Kernel& k, OpId op) { k.erase(op); });
  }
}

/// With two rings, a wait for one of them may cover what the other one waits for.
TEST(StoreChannelBugs, WaitsOfTwoRingsCount) {
  for (const char* channels :
       {"channel c store slots 2 store#0 columns 16 channel d store slots 4 store#1 columns 8",
        "channel c store slots 3 store#0 columns 16 channel d store slots 3 store#1 columns 16"}) {
    SCOPED_TRACE(channels);
    std::printf("== %s\n", channels);
    const Scheduled scheduled(channels);
    EXPECT_EQ(scheduled.fault([](Kernel&) {}), "") << "without a mistake";
    const auto is_before_stores = [](const OpData& d) {
      return is_wait(d) && d.attrs.i(AttrName::count) > 0;
    };
    scheduled.expect_caught("one store too many may be unread", is_before_stores, allow_one_more,
                            false);
  }
}

}  // namespace
}  // namespace tegula::ir::store_channel_bugs_test
