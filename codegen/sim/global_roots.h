#pragma once
// Finds the memory of the arguments that a kernel may write.
#include <span>
#include <vector>

#include "codegen/sim/global_shadow.h"
#include "codegen/sim/simulator.h"

namespace tegula::sim {

/// Returns the argument ranges that some op of the kernel writes or combines into, merged if they
/// overlap. Returns all ranges if an address does not come from a parameter.
std::vector<WatchedRange> watched_ranges(const ir::Kernel& kernel, std::span<const SimArg> args,
                                         std::span<const GlobalRange> ranges);

}  // namespace tegula::sim
