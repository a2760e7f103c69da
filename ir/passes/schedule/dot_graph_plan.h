#pragma once
// The plan of a kernel whose loops hold any graph of dots (ir/passes/dot_graph).
#include <cstdint>
#include <optional>

#include "ir/kernel.h"
#include "ir/passes/dot_graph/dot_graph.h"
#include "ir/plan.h"

namespace tegula::ir {

/// The resources that the loops of a kernel need together.
struct KernelNeeds : DotGraphNeeds {
  std::int64_t registers = 0;  ///< of a thread, for accumulators and fragments of one loop
  bool has_channels = false;   ///< TMA copies something, not the threads alone
  bool gathers = false;        ///< the threads copy something
};
/// None where some dot of the kernel is in no loop of a graph of dots that so many warps compute,
/// or where all loops are GEMMs'.
std::optional<KernelNeeds> dot_graph_needs(const Kernel& k, int num_warps);

/// A plan in tile form: warps, stages, producer warps; none where a dot cannot be a wgmma, or where
/// registers or shared memory do not suffice.
std::optional<Plan> dot_graph_plan(const Kernel& k);

/// Whether the plan's warps compute such graphs.
bool dot_graph_fits(const Kernel& k, const Plan& plan);

/// Whether threads copy some operands of the plan's kernel and TMA others, and a CTA fills an SM:
/// tiles that may be persistent.
bool gathers_alone_on_sm(const Kernel& k, const Plan& plan);

}  // namespace tegula::ir
