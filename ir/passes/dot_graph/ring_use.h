#pragma once
// Readers of the rings of a loop with a dot graph, and the sums that stay in flight.
#include <unordered_set>
#include <vector>

#include "ir/passes/dot_graph/loop_order.h"
#include "ir/passes/mma_loop/mma_loop.h"

namespace tegula::ir {

/// Returns the rings of a loop. The loads of an author's channel share a ring. Other loads share
/// rings as `graph.rings` specifies (RingGrouping).
std::vector<OperandPipeline> ring_uses(const Kernel& k, const DotGraph& graph,
                                       const LoopOrder& order);

/// A carry that starts as zeros, that a dot adds to and nothing else reads. It is pending
/// throughout the loop, and the first MMA does not read it.
struct PendingAccumulator {
  OpId dot;
  std::size_t carry = 0;
  Value init = {};
};
/// Returns one per dot, or nothing if not all dots have one.
std::vector<PendingAccumulator> pending_accumulators(const Kernel& k, const DotGraph& graph,
                                                     const LoopOrder& order);
/// Returns true if all dots with such accumulators stay in flight past the end of an iteration.
/// None of them may read a tile that threads make, because such a tile is rewritten in each
/// iteration.
bool stay_in_flight(const DotGraph& graph, const LoopOrder& order);
/// Returns the accumulators of the dots at the end of an iteration that stay in flight past it,
/// while the next iteration waits for its first result, if threads read results of other dots. None
/// of them may read registers, nor tiles that are loaded once.
std::vector<PendingAccumulator> trailing_accumulators(const Kernel& k, const DotGraph& graph,
                                                      const LoopOrder& order);

}  // namespace tegula::ir
