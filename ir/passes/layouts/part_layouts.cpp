#include "ir/passes/layouts/part_layouts.h"

#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"
#include "ir/type.h"

namespace tegula::ir {

const LinearLayout* box_layout(const LinearLayout& whole, std::span<const std::int64_t> offsets,
                               std::span<const std::int64_t> extents) {
  const auto view = subtile(whole, dims_of(offsets), dims_of(extents));
  return view ? intern_layout(view->layout) : nullptr;
}

const LinearLayout* concat_layout(const LinearLayout& part, int axis, int count) {
  Dims shape = part.shape();
  shape[axis] *= count;
  if (shape.size() >= kMaxRank) return nullptr;
  const auto stacked = broadcast(expand_dim(part, axis), axis, count);
  if (!stacked) return nullptr;
  const auto layout = reshape(*stacked, shape);
  return layout ? intern_layout(*layout) : nullptr;
}

const LinearLayout* element_layout(const LinearLayout& lines, int axis) {
  return intern_layout(expand_dim(slice(lines, axis), axis));
}

}  // namespace tegula::ir
