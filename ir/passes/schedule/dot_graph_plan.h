#pragma once
// The plan of a kernel whose loops hold any graph of dots (ir/passes/dot_graph).
#include <optional>

#include "ir/kernel.h"
#include "ir/passes/schedule/kernel_summary.h"

namespace tegula::ir {

/// None where some dot of the kernel is in no loop of a graph of dots that so many warps compute,
/// or where all loops are GEMMs'.
std::optional<DotNeeds> dot_graph_needs(const Kernel& k, int num_warps);

/// A plan in tile form: warps, stages, producer warps; none where a dot cannot be a wgmma, or where
/// registers or shared memory do not suffice.
std::optional<Plan> dot_graph_plan(const Kernel& k, const KernelSummary& s);

/// Whether the plan's warps compute such graphs.
bool dot_graph_fits(const Kernel& k, const Plan& plan);

/// Whether threads copy some operands of the plan's kernel and TMA others, and a CTA fills an SM:
/// tiles that may be persistent.
bool gathers_alone_on_sm(const Kernel& k, const Plan& plan);

}  // namespace tegula::ir
