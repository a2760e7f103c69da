#pragma once
// Register pressure of a program without MMAs.
#include <cstdint>
#include <optional>

#include "ir/kernel.h"

namespace tegula::ir {

/// Returns the number of 32-bit registers that each of `threads` threads holds at the point of
/// highest pressure: loaded tiles that are still live, loop carries, and tiles that are live across
/// a reduction between threads. Elementwise intermediate values are not counted. Returns nothing if
/// there are no reductions, because then the assembler can schedule the program freely to limit its
/// registers.
std::optional<std::int64_t> register_pressure(const Kernel& k, std::int64_t threads);

}  // namespace tegula::ir
