#pragma once
// Gathers that reverse the lines of a tile, as flip() emits them.
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true if element i of each line along the gather's axis is element extent - 1 - i of its
/// tile.
bool is_reversal(const Kernel& k, const OpData& gather);

}  // namespace tegula::ir
