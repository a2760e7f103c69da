#pragma once
// Memory that a kernel run on the host may access in addition to its arguments.
#include <vector>

#include "ir/eval/eval.h"
#include "ir/kernel.h"

namespace tegula::runtime {

/// Returns the live host tensors that a kernel in tile form may access if it takes addresses; none
/// for other kernels.
std::vector<ir::HostMemory> reachable_memory(const ir::Kernel& tile);

}  // namespace tegula::runtime
