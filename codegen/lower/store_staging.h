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

/// Waits by which one store gets a free buffer. A thread's stores are bulk groups in program order,
/// so it can wait until all but the last n have been read.
struct StagingSlot {
  static constexpr int kNoWait = -1;
  std::int64_t offset = 0;  ///< of the buffer in shared memory, for the first group of warps
  /// Commit groups that may be unread when the buffer is written; the warps synchronize after the
  /// wait.
  int unread_before = kNoWait;
  /// Commit groups that may be unread when the warps synchronize after their writes: the next
  /// store's buffer is then free.
  int unread_after = kNoWait;
  /// All warps, not only those of one warpgroup, synchronize before the buffer is written, because
  /// other warpgroups used parts of it that they do not use now.
  bool all_warps_sync = false;
};

class StoreStaging {
 public:
  /// Assigns buffers to the TMA stores of a kernel in machine form whose shared memory ends at
  /// `end`; none if it has no TMA stores. Rings and buffers are those of ir::staging_rings.
  static std::optional<StoreStaging> of(const ir::Kernel& machine, const ir::Schedule* requested,
                                        int groups, std::int64_t end);

  StagingSlot slot(ir::OpId store) const { return slots_.at(store); }
  /// Returns the bytes from one group's buffers to the next group's.
  std::int64_t group_stride() const { return bytes_; }
  std::int64_t end() const { return first_ + groups_ * bytes_; }
  /// Returns the bytes of all buffers and their purpose, for messages.
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
