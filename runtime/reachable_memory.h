#pragma once
// Memory that a kernel may reach beside its arguments, where the host runs it.
#include <vector>

#include "ir/eval/eval.h"
#include "ir/kernel.h"

namespace tegula::runtime {

/// The live host tensors that a kernel in tile form may reach that takes addresses; none for
/// others.
std::vector<ir::HostMemory> reachable_memory(const ir::Kernel& tile);

}  // namespace tegula::runtime
