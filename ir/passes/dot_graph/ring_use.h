#pragma once
// The readers of the rings of a loop of a graph of dots, and the sums that stay in flight.
#include <unordered_set>
#include <vector>

#include "ir/passes/dot_graph/loop_order.h"
#include "ir/passes/mma_loop/mma_loop.h"

namespace tegula::ir {

/// The rings of an author's channels. Else each load of an operand fills a ring of its own, as do
/// those that one dot waits for together, and other loads share the ring that was waited for before
/// them.
std::vector<OperandPipeline> ring_uses(const Kernel& k, const DotGraph& graph,
                                       const LoopOrder& order);

/// A carry that begins as zeros, that a dot adds to and nothing else reads: it is pending around
/// the loop, and the first MMA does not read it.
struct PendingAccumulator {
  OpId dot;
  std::size_t carry = 0;
  Value init = {};
};
/// One for each dot, or none if not all have one.
std::vector<PendingAccumulator> pending_accumulators(const Kernel& k, const DotGraph& graph,
                                                     const LoopOrder& order);
/// Whether all dots, if they have such accumulators, are in flight over the end of an iteration:
/// none reads a tile that threads have made, which belongs to the MMA of its iteration.
bool stay_in_flight(const DotGraph& graph, const LoopOrder& order);

}  // namespace tegula::ir
