#pragma once
// Layouts of parts of tiles and of tiles put together, where the registers of each thread suffice.
#include <cstdint>
#include <span>

namespace tegula::ir {

class LinearLayout;

/// Layout of the box of `extents` at `offsets`; null if registers alone do not select it.
const LinearLayout* box_layout(const LinearLayout& whole, std::span<const std::int64_t> offsets,
                               std::span<const std::int64_t> extents);
/// Layout of `count` tiles of layout `part` one behind the other along `axis`, each thread holding
/// what it holds of each; null if no layout is that.
const LinearLayout* concat_layout(const LinearLayout& part, int axis, int count);
/// Layout of one element of each line along `axis`, in the threads that hold the line.
const LinearLayout* element_layout(const LinearLayout& lines, int axis);

}  // namespace tegula::ir
