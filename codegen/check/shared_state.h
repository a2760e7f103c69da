#pragma once
// Shared-memory accesses in flight at a point of the program that later accesses must be ordered
// after: writes by threads, reads by TMA and wgmma, initialized mbarriers.
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "codegen/check/index_ranges.h"
#include "codegen/check/thread_sets.h"

namespace tegula::codegen {

enum class AccessKind : std::uint8_t {
  GenericWrite,  ///< by threads
  TmaLoad,       ///< writes of a TMA load
  TmaStore,      ///< reads of a TMA store
  Wgmma,         ///< a wgmma and its operands in shared memory
  MbarrierInit   ///< initialization of an mbarrier
};

/// An access of one op by one warpgroup; identical whenever the op runs.
struct SmemAccess {
  ir::OpId op;
  int part = 0;  ///< number of this access among those of `op`
  int group = 0;
  AccessKind use = AccessKind::GenericWrite;
  ByteRange bytes;  ///< bytes that it may touch
  Threads threads;
  ir::Value address;  ///< first address of each thread's access
  std::int64_t size = 0;
};

/// Progress of an access.
struct AccessStatus {
  static constexpr int kOpen = -1;

  std::uint32_t place = 0;
  int age = kOpen;                ///< groups committed after its group; kOpen: not committed
  bool fenced = false;            ///< for TMA and wgmma, by the writing threads
  bool done = false;              ///< complete, as known to its warpgroup (or thread)
  bool is_reaccumulated = false;  ///< a later wgmma adds to its accumulator
  std::uint32_t seen = 0;         ///< warpgroups that a later barrier has synchronized with it
  std::uint32_t clean = 0;        ///< the subset of `seen` that is ordered after its fence
  friend bool operator==(const AccessStatus&, const AccessStatus&) = default;
};

/// Accesses in flight on some path, one status per place.
struct SharedState {
  std::vector<AccessStatus> open;  ///< ordered by place
  bool needs_wgmma_fence = true;
  /// True after a cluster barrier.
  bool is_after_cluster_barrier = false;
  /// State of accesses to other CTAs' memory: none pending, followed by an arrival at the cluster
  /// barrier, or not yet followed by one.
  enum class Remote : std::uint8_t { None, Arrived, Open };
  Remote remote = Remote::None;
  ir::OpId remote_use;

  void set(const AccessStatus& s);
  /// Merges the state of another path: each access keeps the less complete status.
  void join(const SharedState& other);
  friend bool operator==(const SharedState&, const SharedState&) = default;
};

/// All accesses by number.
class SmemAccesses {
 public:
  std::uint32_t number(const SmemAccess& p);
  const SmemAccess& operator[](std::uint32_t i) const { return all_[i]; }
  const SmemAccess& of(const AccessStatus& s) const { return all_[s.place]; }

 private:
  std::vector<SmemAccess> all_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
};

/// Applies a barrier of the warpgroups in the bit set `groups`: an access that is complete for one
/// of them becomes visible to all of them.
void join_warpgroups(SharedState& state, const SmemAccesses& places, std::uint32_t groups);
/// Applies fence_proxy_async by these threads; or, if inits_only, fence_mbar_init.
void fence(SharedState& state, const SmemAccesses& places, const Threads& threads, bool inits_only);
/// Commits the open accesses of kind `use` by these threads as one group.
void commit(SharedState& state, const SmemAccesses& places, AccessKind use, const Threads& threads);
/// Completes all but the latest `count` groups of kind `use` by these threads.
void retire(SharedState& state, const SmemAccesses& places, AccessKind use, const Threads& threads,
            std::int64_t count);

}  // namespace tegula::codegen
