#pragma once
// Expands a loop of a graph of dots into wgmmas, rings, stored tiles and the waits between them.
#include "ir/passes/dot_graph/dot_graph.h"
#include "ir/passes/mma_loop/mma_loop.h"

namespace tegula::ir {

/// The loop's outer loops must have been found (MmaLoop::find_outer_loops).
void expand_dot_graph(MmaLoop& loop, DotGraph graph, const Plan& plan);

}  // namespace tegula::ir
