#pragma once
// How a reduction along one dimension of a distributed tile is carried out.

#include <vector>

#include "ir/layout/thread_fn.h"

namespace tegula::ir {

/// Three steps: within the thread, within the warp by butterflies, across warps through shared
/// memory. Copies are not counted twice.
struct ReductionPlan {
  /// Layout of the result (the dimension removed); every thread that held a part holds the result.
  LinearLayout result;
  /// Per register of the result, the operand's registers to combine.
  std::vector<std::vector<int>> registers;
  /// Then combine with lane ^ mask, for each mask.
  std::vector<int> lane_masks;
  /// Then with warp ^ mask, for each mask, and with all values of each digit (stride unused): needs
  /// shared memory.
  std::vector<int> warp_masks;
  std::vector<ThreadDigit> warp_digits;
  /// And with other blocks of the cluster.
  std::vector<int> block_masks;
  std::vector<ThreadDigit> block_digits;

  /// Warps that hold parts of one result.
  int warps() const;
  bool needs_shared() const { return warps() > 1; }
  bool needs_cluster() const { return !block_masks.empty() || !block_digits.empty(); }
};

/// Refused if parts lie along sums of register, lane and warp bits; converting to a blocked layout
/// first helps.
Result<ReductionPlan> plan_reduction(const LinearLayout& layout, int dim);

}  // namespace tegula::ir
