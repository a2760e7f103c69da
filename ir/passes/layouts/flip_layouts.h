#pragma once
// Layouts of the tiles in a chain of flips.
#include <unordered_map>

#include "ir/kernel.h"
#include "ir/uses.h"

namespace tegula::ir {

class LinearLayout;

/// Returns, for the tile of each flip in the chain that starts at `first` with `layout`, a layout
/// whose registers hold the elements that this flip and the next ones exchange. One conversion then
/// replaces several exchanges between lanes or warps. The layout is null for tiles that are not
/// converted; that is all of them if the conversions would cost more than the exchanges that they
/// save. For a chain without flips, returns null for each tile in it, so that callers need not
/// search from those again.
///
/// A chain consists of elementwise operations and reshapes of one value, and of flips whose tile is
/// made by a reshape. Its extents are powers of two.
std::unordered_map<Value, const LinearLayout*> flip_layouts(const Kernel& k, const Uses& uses,
                                                            Value first,
                                                            const LinearLayout& layout);

}  // namespace tegula::ir
