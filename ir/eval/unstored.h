#pragma once
// Elements of Out arguments that no program stored, and the stores that left them out.

#include "ir/eval/program.h"

namespace tegula::ir::interp {

/// Notes that a store left out the element at `at`, for its value is absent there.
void note_drop(Program& p, OpId store, const MemoryRegion& region, const std::byte* at);

/// To be called when all programs have run.
void find_unstored(Evaluation& evaluation);

}  // namespace tegula::ir::interp
