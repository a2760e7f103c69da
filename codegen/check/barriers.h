#pragma once
// Named barriers and mbarriers: arriving threads and expected counts.
#include <array>
#include <bitset>
#include <map>
#include <vector>

#include "codegen/check/checker.h"

namespace tegula::codegen {

class NamedBarriers {
 public:
  explicit NamedBarriers(Checker& c) : c_(c) {}

  /// Visits a bar_sync or bar_arrive.
  void visit(SharedState& state, ir::OpId op, const ThreadContext& context);
  /// Reports faults at the end of the kernel.
  void finish();

 private:
  struct BarrierUse {
    ir::OpId first;
    std::int64_t count = 0;
    Threads threads;
    bool waits = false;  ///< some of the threads wait
  };
  std::int64_t count_of(const ir::OpData& d) const;
  std::map<std::int64_t, Threads> by_id(ir::Value id, const Threads& threads) const;
  void may_be(ir::Value id, const Threads& threads);
  void use(std::int64_t id, std::int64_t count, ir::OpId op, const Threads& threads);
  void expect_enough(const BarrierUse& use);

  Checker& c_;
  std::array<BarrierUse, ir::kNamedBarriers> uses_{};
  std::bitset<ir::kNamedBarriers> at_run_time_;  ///< other threads may use these, too
};

class Mbarriers {
 public:
  explicit Mbarriers(Checker& c) : c_(c) {}

  /// Registers an mbar_arrive of the kernel; call before all other functions.
  void add_arrival_of_threads(ir::OpId op);
  void init(SharedState& state, ir::OpId op, const ThreadContext& context);
  /// Visits an mbar_arrive or mbar_expect_tx.
  void arrive(SharedState& state, ir::OpId op, const ThreadContext& context);
  void wait(SharedState& state, ir::OpId op, const ThreadContext& context);
  /// Visits a TMA load, which names an mbarrier.
  void name(const SharedState& state, ir::OpId op, const ThreadContext& context);
  void finish();

 private:
  struct InitializedBarrier {
    ir::OpId op;
    ByteRange bytes;
    std::int64_t count = 0;
  };
  struct Arrival {
    ir::OpId op;
    ByteRange bytes;
    Threads threads;
    bool is_exact = false;
    bool is_convergent = true;  ///< all warpgroups arrive in the same phase
  };
  void expect_initialized(const SharedState& state, ir::OpId op, ir::Value address,
                          const ThreadContext& context);
  void expect_count(const InitializedBarrier& barrier);
  bool is_ambiguous(const Arrival& a) const;

  Checker& c_;
  std::vector<ByteRange> thread_arrivals_;
  std::vector<InitializedBarrier> initialized_;
  std::vector<Arrival> arrivals_;
};

/// Checks that other CTAs' memory is used only between the first and the last cluster barrier.
class ClusterCheck {
 public:
  explicit ClusterCheck(Checker& c) : c_(c) {}

  static bool is_for_cluster(const ir::OpData& d);
  /// Visits a ld_cluster, or an arrival or a TMA load at other CTAs.
  void visit(SharedState& state, ir::OpId op);
  void arrive(SharedState& state);
  void wait(SharedState& state);
  void exit(const SharedState& state);

 private:
  Checker& c_;
};

/// Checks that each mbar_expect_tx announces the bytes of the TMA loads of its mbarrier in its
/// region.
void check_announced_bytes(Checker& c);

}  // namespace tegula::codegen
