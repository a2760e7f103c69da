#pragma once
// Origins of the values that a kernel stores, for reports of elements that were never stored.
#include <span>
#include <vector>

#include "codegen/sim/simulator.h"
#include "ir/eval/eval.h"
#include "ir/kernel.h"

namespace tegula::runtime {

/// Returns the stores to parameter `i` of a kernel in tile form, with the loads from which their
/// values are computed.
std::vector<sim::StoreSource> store_sources(const ir::Kernel& tile,
                                            std::span<const ir::EvalArg> args, std::size_t i);

}  // namespace tegula::runtime
