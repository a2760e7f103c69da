#pragma once
// Operands of boxes: load_view, store_view, atomic_view, copy_async and copy_tma. Boxes may be
// gathered or scattered along one dimension of their tile: index tiles among the offsets select the
// positions along it.
#include <span>

#include "ir/kernel.h"

namespace tegula::ir {

/// Returns the position of the first offset among the box's operands.
std::size_t first_offset(const OpData& box);
/// Returns the view of the box.
Value view_of_box(const OpData& box);
/// Returns the limits of the box, one per view dimension, or nothing if only the view ends it.
std::span<const Value> limits_of_box(const Kernel& k, const OpData& box);
/// Returns the operand of a copy_tma that is true where both CTAs of the cluster copy the same box,
/// or a null value if it has none.
Value multicast_flag(const Kernel& k, const OpData& copy);
/// Returns true if an index tile selects the positions along a view dimension.
bool is_gathered(const Kernel& k, const OpData& box, std::size_t view_dim);
/// Returns the tile dimension along which index tiles run: that of the first gathered view
/// dimension, which all index tiles share; -1 if no dimension is gathered.
int gathered_dim(const Kernel& k, const OpData& box);

}  // namespace tegula::ir
