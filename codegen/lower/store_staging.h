#pragma once
// Staging buffers in shared memory between accumulator registers and TMA stores. The stores of a
// CTA use the buffers round-robin.
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "ir/kernel.h"
#include "ir/layout/shared_layout.h"

namespace tegula::codegen {

/// How one store gets a buffer that is free. A thread's stores are bulk groups in their order, so
/// that "all but the last n have been read" can be waited for.
struct StagingSlot {
  static constexpr int kNoWait = -1;
  int buffer = 0;
  /// Commit groups that may be unread before the buffer is written, and the warps synchronise.
  int unread_before = kNoWait;
  /// The same before they synchronise to hand their writes over: then the next store's buffer is
  /// free.
  int unread_behind = kNoWait;
  /// Not the warps of a warpgroup, but all meet before the buffer is written: other warpgroups have
  /// had other parts of it.
  bool all_meet = false;
};

class StoreStaging {
 public:
  /// For the stores by TMA of a kernel in machine form whose shared memory ends at `end`; none
  /// where there are none. It has one buffer for each store where shared memory allows, at most
  /// four, and at least one. `groups` of warps have their own.
  static std::optional<StoreStaging> of(const ir::Kernel& machine, int groups, std::int64_t end);

  /// Layout of a stored tile in a buffer.
  static ir::SharedLayout layout(ir::Type tile);

  StagingSlot slot(ir::OpId store) const { return slots_.at(store); }
  std::int64_t offset(int buffer) const { return first_ + buffer * bytes_; }
  /// From one group's buffers to the next one's.
  std::int64_t group_stride() const { return buffers_ * bytes_; }
  std::int64_t end() const { return first_ + groups_ * group_stride(); }

 private:
  void assign_slots(const ir::Kernel& machine, const std::vector<ir::OpId>& stores);
  void find_meetings(const ir::Kernel& machine, const std::vector<ir::OpId>& stores);

  std::int64_t first_ = 0, bytes_ = 0;  ///< extent of one buffer
  int buffers_ = 1, groups_ = 1;
  std::unordered_map<ir::OpId, StagingSlot> slots_;
};

}  // namespace tegula::codegen
