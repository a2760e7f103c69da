#pragma once
// State shared by the parts of the check.
#include <unordered_map>
#include <vector>

#include "codegen/check/exact_addresses.h"
#include "codegen/check/index_ranges.h"
#include "codegen/check/shared_state.h"
#include "codegen/check/simt_check.h"
#include "codegen/check/thread_sets.h"

namespace tegula::codegen {

/// The threads that run the current op.
struct ThreadContext {
  Threads threads;
  /// False if an unknown subset of the threads may take an enclosing branch.
  bool is_exact = true;
  /// False if an enclosing branch may be taken by one warpgroup at a time.
  bool is_convergent = true;
  /// True if only a part of some warp runs the op.
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
  /// Returns the elements of the box of a tensor map parameter; 0 if the lowering did not create
  /// the map.
  std::int64_t box_elements(ir::Value map) const;
  /// Returns the element size that a swizzled map of the same argument declares; 0 if none does.
  std::int64_t element_bytes(ir::Value map) const;
  /// Returns the bytes that a TMA op loads or stores; at least one.
  std::int64_t box_bytes(ir::Value map) const;
  /// Returns an access of `size` bytes at `address` by the threads of warpgroup `group` in
  /// `threads`.
  SmemAccess place(ir::OpId op, AccessKind use, int group, const Threads& threads,
                   ir::Value address, std::int64_t size);
  /// Returns the threads of one warpgroup in `threads`.
  static Threads within(const Threads& threads, int group) {
    return threads & threads_between(group * kWarpgroupThreads, (group + 1) * kWarpgroupThreads);
  }
};

/// Calls `f(group)` for each warpgroup with a thread in `threads`.
template <class F>
void for_groups(const Threads& threads, const F& f) {
  const std::uint32_t groups = warpgroups_of(threads);
  for (int g = 0; groups >> g != 0; ++g)
    if (groups >> g & 1U) f(g);
}

// ---- shared memory (shared_accesses.cpp)
/// Visits a st_shared, stmatrix or cp_async.
void visit_write(Checker& c, SharedState& state, ir::OpId op, const ThreadContext& context);
void visit_tma_load(Checker& c, SharedState& state, ir::OpId op, const ThreadContext& context);
void visit_tma_store(Checker& c, SharedState& state, ir::OpId op, const ThreadContext& context);
/// Checks that threads' writes are fenced and ordered before `access` by TMA or wgmma.
void access_by_async_proxy(Checker& c, const SharedState& state, const SmemAccess& access);
/// Checks accesses in flight at the end of a role.
void visit_exit(Checker& c, const SharedState& state);

}  // namespace tegula::codegen
