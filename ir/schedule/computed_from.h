#pragma once
// Search for the ops that a scalar is computed from.
#include <functional>

#include "ir/kernel.h"

namespace tegula::ir {

/// Returns the first op on the def-use chains that lead back from `v` for which `is_wanted` returns
/// true, or a null op. The search follows scalars, carries, results of loops and branches, and the
/// bounds and conditions that decide these. It tests ops that make or read tiles, but does not
/// follow their operands.
OpId computed_from(const Kernel& k, Value v, const std::function<bool(OpId)>& is_wanted);

/// Returns true if the op makes or reads a tile.
bool touches_tile(const Kernel& k, OpId op);

}  // namespace tegula::ir
