#pragma once
// Finds elements of Out arguments that no program stored, and the stores that dropped them.

#include "ir/eval/program.h"

namespace tegula::ir::interp {

/// Records that a store dropped the element at `address` because its value is absent there.
void note_drop(Program& p, OpId store, const MemoryRegion& region, const std::byte* address);

/// Reports the elements that were never stored. Must be called after all programs have run.
void find_unstored(Evaluation& evaluation);

}  // namespace tegula::ir::interp
