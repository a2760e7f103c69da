#pragma once
// The ops that a scalar is computed from.
#include <functional>

#include "ir/kernel.h"

namespace tegula::ir {

/// The first op, going back from `v`, for which `is_wanted` holds; none if there is none. Goes
/// through scalars, carries, results of loops and branches, and what decides about these; ops that
/// make or read tiles are asked, and not gone through.
OpId computed_from(const Kernel& k, Value v, const std::function<bool(OpId)>& is_wanted);

/// Whether the op makes or reads a tile.
bool touches_tile(const Kernel& k, OpId op);

}  // namespace tegula::ir
