#pragma once
// Plans a reduction along one dimension of a distributed tile.

#include <vector>

#include "ir/layout/thread_fn.h"

namespace tegula::ir {

/// A reduction in three stages: within the thread, within the warp by butterflies, and across warps
/// through shared memory. Copies are not counted twice.
struct ReductionPlan {
  /// Layout of the result (the dimension removed); every thread that held a part holds the result.
  LinearLayout result;
  /// For each register of the result, the operand registers to combine.
  std::vector<std::vector<int>> registers;
  /// The second stage combines with lane ^ mask, for each mask.
  std::vector<int> lane_masks;
  /// The third stage combines with warp ^ mask, for each mask, and with all values of each digit
  /// (stride unused). It needs shared memory.
  std::vector<int> warp_masks;
  std::vector<ThreadDigit> warp_digits;
  /// The last stage combines with other blocks of the cluster.
  std::vector<int> block_masks;
  std::vector<ThreadDigit> block_digits;

  /// Returns the number of warps that hold parts of one result.
  int warps() const;
  bool needs_shared() const { return warps() > 1; }
  bool needs_cluster() const { return !block_masks.empty() || !block_digits.empty(); }
};

/// Returns an error if parts are along sums of register, lane and warp bits; convert to a blocked
/// layout first.
Result<ReductionPlan> plan_reduction(const LinearLayout& layout, int dim);

}  // namespace tegula::ir
