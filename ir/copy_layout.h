#pragma once
// The layout of copies by cp.async: which thread copies what.
#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// Threads of `warps` warps that copy a box of `shape` by pieces of `vector` elements along
/// dimension `fast`. Of a layout that pads the box and one that leaves threads idle the one with
/// fewer copies a thread is taken; padding is not to be copied, which would write over a neighbour.
LinearLayout copy_layout(const Dims& shape, int fast, int vector, int warps);

}  // namespace tegula::ir
