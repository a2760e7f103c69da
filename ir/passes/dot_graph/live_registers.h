#pragma once
// Registers of a thread that a loop's accumulators and fragments take at once.
#include <cstdint>

#include "ir/passes/dot_graph/loop_order.h"

namespace tegula::ir {

/// Returns the registers per thread of the accumulators and of the fragments of A that are live at
/// once in a step of the default order. Accumulators that the loop carries are live throughout.
/// Other accumulators are live until the last use of the tiles that threads compute from them in
/// place, which have equal numbers of 32-bit elements. Fragments are live until their dot retires.
std::int64_t live_registers(const Kernel& k, const DotGraph& graph);

}  // namespace tegula::ir
