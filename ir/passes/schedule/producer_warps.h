#pragma once
// Warps of the producer role, and the registers that they leave to the consumers.
#include <cstdint>

#include "ir/kernel.h"
#include "ir/plan.h"

namespace tegula::ir {

/// Registers that a wgmma thread needs in addition to its accumulators: addresses, and those that
/// ptxas keeps live.
inline constexpr int kNonAccumulatorRegisters = 26;

/// Adds one producer warp. If consumers can use more registers than that leaves them, adds a whole
/// producer warpgroup, which releases its registers by setmaxnreg.
void add_producer_warps(Plan& plan, const Kernel& k, std::int64_t useful, std::int64_t needed);

}  // namespace tegula::ir
