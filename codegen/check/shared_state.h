#pragma once
// Accesses in flight in shared memory at a point of the program, as far as a later access must be
// ordered after them: writes of threads, reads of TMA and wgmma, initialised mbarriers.
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

/// An access of one op by one warpgroup: the same whenever the op runs.
struct SmemAccess {
  ir::OpId op;
  int part = 0;  ///< number among the accesses of an op
  int group = 0;
  AccessKind use = AccessKind::GenericWrite;
  ByteRange bytes;  ///< bytes that it may touch
  Threads threads;
  ir::Value address;  ///< first address of each thread's access
  std::int64_t size = 0;
};

/// How far one is.
struct AccessStatus {
  static constexpr int kOpen = -1;

  std::uint32_t place = 0;
  int age = kOpen;                ///< groups committed since its own; kOpen: not committed itself
  bool fenced = false;            ///< for TMA and wgmma, by the writing threads
  bool done = false;              ///< read, and its own warpgroup (or thread) knows
  bool is_reaccumulated = false;  ///< a later wgmma adds to its accumulator
  std::uint32_t seen = 0;         ///< warpgroups that a later barrier has synchronised with it
  std::uint32_t clean = 0;        ///< warpgroups among these behind its fence
  friend bool operator==(const AccessStatus&, const AccessStatus&) = default;
};

/// One for each place that was reached, on some path.
struct SharedState {
  std::vector<AccessStatus> open;  ///< ordered by place
  bool needs_wgmma_fence = true;
  /// Whether a cluster barrier has been passed.
  bool is_after_cluster_barrier = false;
  /// State of accesses to other CTAs' memory: whether an arrival at the cluster barrier comes after
  /// them, or none yet.
  enum class Remote : std::uint8_t { None, Arrived, Open };
  Remote remote = Remote::None;
  ir::OpId remote_use;

  void set(const AccessStatus& s);
  /// Takes the less finished state of both paths.
  void join(const SharedState& other);
  friend bool operator==(const SharedState&, const SharedState&) = default;
};

/// All places by number.
class SmemAccesses {
 public:
  std::uint32_t number(const SmemAccess& p);
  const SmemAccess& operator[](std::uint32_t i) const { return all_[i]; }
  const SmemAccess& of(const AccessStatus& s) const { return all_[s.place]; }

 private:
  std::vector<SmemAccess> all_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
};

/// Warpgroups synchronise: each knows what any of them knows.
void join_warpgroups(SharedState& state, const SmemAccesses& places, std::uint32_t groups);
/// fence_proxy_async by these threads; or, of mbarriers alone, fence_mbar_init.
void fence(SharedState& state, const SmemAccesses& places, const Threads& threads, bool inits_only);
/// A group of that use is committed by these threads.
void commit(SharedState& state, const SmemAccesses& places, AccessKind use, const Threads& threads);
/// All but the `count` latest groups of these threads are over.
void retire(SharedState& state, const SmemAccesses& places, AccessKind use, const Threads& threads,
            std::int64_t count);

}  // namespace tegula::codegen
