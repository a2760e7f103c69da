#pragma once
// The plan of a kernel whose loops hold any graph of dots (ir/passes/dot_graph).
#include <optional>

#include "ir/kernel.h"
#include "ir/plan.h"

namespace tegula::ir {

/// A plan in tile form: warps, stages, producer warps; none where a dot cannot be a wgmma, or where
/// registers or shared memory do not suffice.
std::optional<Plan> dot_graph_plan(const Kernel& k);

/// Whether all dots of the kernel are in such loops, for the warps of this plan.
bool dot_graph_fits(const Kernel& k, const Plan& plan);

}  // namespace tegula::ir
