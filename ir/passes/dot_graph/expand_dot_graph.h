#pragma once
// Expands a loop of a graph of dots into wgmmas, rings, stored tiles and the waits between them.
#include "ir/passes/dot_graph/loop_order.h"
#include "ir/passes/mma_loop/mma_loop.h"

namespace tegula::ir {

/// `order` can be expanded (why_not_expandable). The loop's outer loops must have been found
/// (MmaLoop::find_outer_loops). Gives whether all dots stay in flight over the end of a step.
bool expand_dot_graph(MmaLoop& loop, DotGraph graph, LoopOrder order, const Plan& plan,
                      PassContext& context);

}  // namespace tegula::ir
