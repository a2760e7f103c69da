#pragma once
// Boxes that are gathered or scattered along one dimension of their tile: index tiles among the
// offsets of a load_view, store_view, atomic_view or copy_async name the places there.
#include "ir/kernel.h"

namespace tegula::ir {

/// Place of the first offset among the box's operands.
std::size_t first_offset(const OpData& box);
/// An index tile names the places along a view dimension.
bool is_gathered(const Kernel& k, const OpData& box, std::size_t view_dim);
/// The tile dimension that index tiles go along: that of the first one, at whose view dimension all
/// meet; -1: none does.
int gathered_dim(const Kernel& k, const OpData& box);
/// Layout of the index tiles of a box that goes along layout `box`: of each element, the thread
/// that has it has its place.
const LinearLayout* index_tile_layout(const LinearLayout& box, int gathered_dim);

}  // namespace tegula::ir
