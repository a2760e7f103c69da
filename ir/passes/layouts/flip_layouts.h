#pragma once
// Layouts of tiles that a chain of flips reads.
#include <unordered_map>

#include "ir/kernel.h"
#include "ir/uses.h"

namespace tegula::ir {

class LinearLayout;

/// By the tile of each flip in the chain from `first` on, which has `layout`: where registers hold
/// the elements that this flip and the next ones exchange, so that one conversion takes the place
/// of an exchange between lanes or warps for each. Null for tiles that stay where they are, which
/// are all where conversions would cost more than the exchanges that they save.
///
/// A chain: elementwise operations and reshapes of one value, and flips whose tile a reshape makes;
/// its extents are powers of two.
std::unordered_map<Value, const LinearLayout*> flip_layouts(const Kernel& k, const Uses& uses,
                                                            Value first,
                                                            const LinearLayout& layout);

}  // namespace tegula::ir
