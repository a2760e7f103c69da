#pragma once
// Plans for kernels whose loops contain arbitrary graphs of dots (ir/passes/dot_graph).
#include <optional>

#include "ir/kernel.h"
#include "ir/passes/schedule/kernel_summary.h"

namespace tegula::ir {

/// Returns the needs of the kernel's dots if `num_warps` warps can compute them as graphs of dots.
/// Returns nothing if a dot is not in such a loop, or if all loops are plain GEMMs.
std::optional<DotNeeds> dot_graph_needs(const Kernel& k, int num_warps);

/// Returns a plan for a kernel in tile form; nothing if a dot cannot be a wgmma, or if registers or
/// shared memory are insufficient.
std::optional<Plan> dot_graph_plan(const Kernel& k, const KernelSummary& s);

/// Returns true if the plan's warps can compute the kernel's graphs of dots.
bool dot_graph_fits(const Kernel& k, const Plan& plan);

/// Returns true if threads copy some operands and TMA copies others, and one CTA fills an SM, so
/// that the kernel may be persistent.
bool gathers_alone_on_sm(const Kernel& k, const Plan& plan);

}  // namespace tegula::ir
