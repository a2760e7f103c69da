#pragma once
// The layout of copies by cp.async: which thread copies what.
#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// Threads of `warps` warps that copy a box of `shape` by pieces of `vector` elements along
/// dimension `fast`.
LinearLayout copy_layout(const Dims& shape, int fast, int vector, int warps);

}  // namespace tegula::ir
