#pragma once
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true if a store to index tiles or pointers computes what it stores from the elements
/// that it overwrites, as `z(at) += 1` does: of two equal indices, one update is then lost.
bool updates_elements(const Kernel& k, OpId store);

}  // namespace tegula::ir
