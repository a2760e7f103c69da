#pragma once
// Staging buffers in shared memory between accumulator registers and TMA stores. The stores of a
// ring use its buffers round-robin.
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/kernel.h"
#include "ir/schedule/staging_rings.h"

namespace tegula::codegen {

/// How one store gets a buffer that is free. A thread's stores are bulk groups in their order, so
/// that "all but the last n have been read" can be waited for.
struct StagingSlot {
  static constexpr int kNoWait = -1;
  std::int64_t offset = 0;  ///< of the buffer, in shared memory; of the first group of warps
  /// Commit groups that may be unread before the buffer is written, and the warps synchronise.
  int unread_before = kNoWait;
  /// The same before they synchronise to hand their writes over: then the next store's buffer is
  /// free.
  int unread_behind = kNoWait;
  /// Not the warps of a warpgroup, but all meet before the buffer is written: other warpgroups have
  /// had parts of it that they do not have now.
  bool all_meet = false;
};

class StoreStaging {
 public:
  /// For the stores by TMA of a kernel in machine form whose shared memory ends at `end`; none
  /// where there are none. Rings and their buffers are those of ir::staging_rings.
  static std::optional<StoreStaging> of(const ir::Kernel& machine, const ir::Schedule* asked,
                                        int groups, std::int64_t end);

  StagingSlot slot(ir::OpId store) const { return slots_.at(store); }
  /// From one group's buffers to the next one's.
  std::int64_t group_stride() const { return bytes_; }
  std::int64_t end() const { return first_ + groups_ * bytes_; }
  /// The bytes of all buffers and their purpose, as a message names them.
  ir::SharedUse use(const ir::Kernel& machine) const;

 private:
  void add(const ir::Kernel& machine, const ir::StagingRing& ring);
  void wait_for_all(const ir::Kernel& machine, const ir::StagingRing& ring);
  void wait_in_turn(const ir::Kernel& machine, const ir::StagingRing& ring);

  std::int64_t first_ = 0, bytes_ = 0;  ///< extent of a group's buffers
  int groups_ = 1;
  std::vector<ir::OpId> stores_;  ///< of all rings, in text order
  std::unordered_map<ir::OpId, StagingSlot> slots_;
};

}  // namespace tegula::codegen
