#pragma once
// Where values that a kernel stores come from, for findings about elements that nobody stored.
#include <span>
#include <vector>

#include "codegen/sim/simulator.h"
#include "ir/eval/eval.h"
#include "ir/kernel.h"

namespace tegula::runtime {

/// The stores to parameter `i` of a kernel of tile form, with the loads that their values are
/// computed from.
std::vector<sim::StoreSource> store_sources(const ir::Kernel& tile,
                                            std::span<const ir::EvalArg> args, std::size_t i);

}  // namespace tegula::runtime
