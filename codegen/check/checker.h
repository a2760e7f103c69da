#pragma once
// State that the parts of the check share.
#include <unordered_map>
#include <vector>

#include "codegen/check/exact_addresses.h"
#include "codegen/check/index_ranges.h"
#include "codegen/check/shared_state.h"
#include "codegen/check/simt_check.h"
#include "codegen/check/thread_sets.h"

namespace tegula::codegen {

/// The threads that run the op at hand.
struct ThreadContext {
  Threads threads;
  /// No branch around it is taken by some of them only, without it being known by whom.
  bool is_exact = true;
  /// Nor by one warpgroup at a time.
  bool is_convergent = true;
  /// Whether some warp takes part only in part.
  bool has_partial_warp = false;
};

struct Checker {
  explicit Checker(const ir::Kernel& simt);

  const ir::Kernel& k;
  IndexRanges ranges;
  ThreadSets sets;
  ExactAddresses addresses;
  SmemAccesses places;
  std::vector<SimtFault> faults;
  std::unordered_map<ir::Value, const ir::Param*> params;

  void report(sim::Detector kind, const char* what, ir::OpId op, ir::OpId other = {});
  /// Elements of the box of a tensor map parameter; 0 where it is none that the lowering made.
  std::int64_t box_elements(ir::Value map) const;
  /// Element size that a swizzled map of the same argument declares; 0 if none does.
  std::int64_t element_bytes(ir::Value map) const;
  /// Bytes that a TMA op loads or stores; at least one.
  std::int64_t box_bytes(ir::Value map) const;
  /// An access of `size` bytes at `address` by the warpgroup's threads among these.
  SmemAccess place(ir::OpId op, AccessKind use, int group, const Threads& threads,
                   ir::Value address, std::int64_t size);
  /// The threads of one warpgroup among these.
  static Threads within(const Threads& threads, int group) {
    return threads & threads_between(group * kWarpgroupThreads, (group + 1) * kWarpgroupThreads);
  }
};

/// Calls `f(group)` for each warpgroup that has a thread there.
template <class F>
void for_groups(const Threads& threads, const F& f) {
  const std::uint32_t groups = warpgroups_of(threads);
  for (int g = 0; groups >> g != 0; ++g)
    if (groups >> g & 1U) f(g);
}

// ---- shared memory (shared_accesses.cpp)
/// st_shared, stmatrix, cp_async.
void visit_write(Checker& c, SharedState& state, ir::OpId op, const ThreadContext& who);
void visit_tma_load(Checker& c, SharedState& state, ir::OpId op, const ThreadContext& who);
void visit_tma_store(Checker& c, SharedState& state, ir::OpId op, const ThreadContext& who);
/// TMA or a wgmma is there: threads' writes must be fenced and ordered before it.
void access_by_async_proxy(Checker& c, const SharedState& state, const SmemAccess& there);
/// The role is over.
void visit_exit(Checker& c, const SharedState& state);

}  // namespace tegula::codegen
