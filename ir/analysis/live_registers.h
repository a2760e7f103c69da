#pragma once
// Register pressure of a kernel as a thread runs it: the registers that its live values take at
// once.
#include <cstdint>

#include "ir/kernel.h"

namespace tegula::ir {

/// The point of a kernel in simt form at which a thread's live values take the most 32-bit
/// registers.
struct LivePeak {
  std::int64_t registers = 0;  ///< of values that are no constants, predicates or addresses of
                               ///< parameters
  Loc at;
};

/// Values in the order of the text; what a loop reads from outside, or carries, is live in all of
/// it. Assemblers order ops anew within blocks: their count differs by some registers.
LivePeak live_peak(const Kernel& simt);

}  // namespace tegula::ir
