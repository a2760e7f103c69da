#pragma once
// Tiles whose elements are all equal because of how they are computed.
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true for scalars, constants, splats, and results of elementwise and shape ops on such
/// values only. A selection by such a condition selects whole tiles.
bool is_uniform(const Kernel& k, Value v, int depth = 0);

}  // namespace tegula::ir
