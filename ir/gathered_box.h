#pragma once
// Boxes that are gathered or scattered along one dimension of their tile: index tiles among the
// offsets of a load_view, store_view, atomic_view or copy_async select the positions along it.
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns the position of the first offset among the box's operands.
std::size_t first_offset(const OpData& box);
/// Returns true if an index tile selects the positions along a view dimension.
bool is_gathered(const Kernel& k, const OpData& box, std::size_t view_dim);
/// Returns the tile dimension along which index tiles run: that of the first gathered view
/// dimension, which all index tiles share; -1 if no dimension is gathered.
int gathered_dim(const Kernel& k, const OpData& box);
/// Returns the layout of the index tiles of a box with layout `box`: the thread that holds an
/// element of the box also holds its index.
const LinearLayout* index_tile_layout(const LinearLayout& box, int gathered_dim);

}  // namespace tegula::ir
