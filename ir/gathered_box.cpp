#include "ir/gathered_box.h"

#include <algorithm>

#include "ir/layout/layout_ops.h"

namespace tegula::ir {

std::size_t first_offset(const OpData& box) {
  using enum Opcode;
  return box.opcode == LoadView ? 1 : box.opcode == CopyAsync ? 3 : 2;
}

bool is_gathered(const Kernel& k, const OpData& box, std::size_t view_dim) {
  return k.type(box.operands[first_offset(box) + view_dim]).is_tile();
}

int gathered_dim(const Kernel& k, const OpData& box) {
  const Value view = box.operands[box.opcode == Opcode::CopyAsync ? 2 : 0];
  const auto rank = static_cast<std::size_t>(k.type(view).rank());
  const auto axes = box.attrs.ints(AttrName::axes);
  for (std::size_t v = 0; v < rank; ++v)
    if (is_gathered(k, box, v))
      return static_cast<int>(std::ranges::find(axes, static_cast<std::int64_t>(v)) - axes.begin());
  return -1;
}

const LinearLayout* index_tile_layout(const LinearLayout& box, int gathered_dim) {
  LinearLayout line = box;
  for (int d = box.rank() - 1; d >= 0; --d)
    if (d != gathered_dim) line = slice(line, d);
  return intern_layout(line);
}

}  // namespace tegula::ir
