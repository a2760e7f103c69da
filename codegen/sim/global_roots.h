#pragma once
// Finds the memory of its arguments that a kernel may write.
#include <span>
#include <vector>

#include "codegen/sim/global_shadow.h"
#include "codegen/sim/simulator.h"

namespace tegula::sim {

/// The arguments' ranges that are written or combined into by some op of the kernel, joined where
/// they overlap. All of them where an address comes from elsewhere.
std::vector<WatchedRange> watched_ranges(const ir::Kernel& kernel, std::span<const SimArg> args,
                                         std::span<const GlobalRange> ranges);

}  // namespace tegula::sim
