#pragma once
// Register pressure of a program without MMAs: the registers that its threads hold at once.
#include <cstdint>
#include <optional>

#include "ir/kernel.h"

namespace tegula::ir {

/// 32-bit registers that each of `threads` threads holds at the point of highest pressure: loaded
/// tiles that are still needed, what loops carry, and tiles that are live across a reduction
/// between threads.
/// Element-wise intermediate values are not counted. Empty without reductions: then no point of the
/// program has to hold more than an assembler likes to.
std::optional<std::int64_t> register_pressure(const Kernel& k, std::int64_t threads);

}  // namespace tegula::ir
