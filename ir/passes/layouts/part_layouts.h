#pragma once
// Layouts of tile slices and concatenated tiles for which each thread needs only its own registers.
#include <cstdint>
#include <span>

namespace tegula::ir {

class LinearLayout;

/// Returns the layout of the box of `extents` at `offsets`; null if registers alone do not select
/// it.
const LinearLayout* box_layout(const LinearLayout& whole, std::span<const std::int64_t> offsets,
                               std::span<const std::int64_t> extents);
/// Returns the layout of `count` tiles of layout `part` concatenated along `axis`, in which each
/// thread holds its elements of each part; null if there is none.
const LinearLayout* concat_layout(const LinearLayout& part, int axis, int count);
/// Returns the layout of one element of each line along `axis`, in the threads that hold the line.
const LinearLayout* element_layout(const LinearLayout& lines, int axis);

}  // namespace tegula::ir
