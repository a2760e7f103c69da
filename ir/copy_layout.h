#pragma once
// The layout of copies by cp.async: which thread copies which elements.
#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// Returns the layout by which the threads of `warps` warps copy a box of `shape` in vectors of
/// `vector` elements along dimension `fast`. Chooses between a layout that pads the box and one
/// that leaves threads idle: the one with fewer copies per thread. Padding must not be copied,
/// because that would overwrite adjacent memory.
LinearLayout copy_layout(const Dims& shape, int fast, int vector, int warps);

}  // namespace tegula::ir
