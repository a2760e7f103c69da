#include "ir/gathered_box.h"

#include <algorithm>

namespace tegula::ir {

std::size_t first_offset(const OpData& box) {
  using enum Opcode;
  return box.opcode == LoadView ? 1 : box.opcode == CopyAsync ? 3 : box.opcode == CopyTma ? 4 : 2;
}

Value view_of_box(const OpData& box) {
  return box.operands[box.is(Opcode::CopyAsync, Opcode::CopyTma) ? first_offset(box) - 1 : 0];
}

std::span<const Value> limits_of_box(const Kernel& k, const OpData& box) {
  const auto rank = static_cast<std::size_t>(k.type(view_of_box(box)).rank());
  const std::size_t end = box.operands.size() - (multicast_flag(k, box) ? 1 : 0),
                    first = first_offset(box) + rank;
  if (end < first + rank) return {};
  return std::span(box.operands).subspan(first, rank);
}

Value multicast_flag(const Kernel& k, const OpData& copy) {
  const bool has_flag =
      copy.opcode == Opcode::CopyTma && k.type(copy.operands.back()) == Type::scalar(DType::i1);
  return has_flag ? copy.operands.back() : Value();
}

bool is_gathered(const Kernel& k, const OpData& box, std::size_t view_dim) {
  return k.type(box.operands[first_offset(box) + view_dim]).is_tile();
}

int gathered_dim(const Kernel& k, const OpData& box) {
  const auto rank = static_cast<std::size_t>(k.type(view_of_box(box)).rank());
  const auto axes = box.attrs.ints(AttrName::axes);
  for (std::size_t v = 0; v < rank; ++v)
    if (is_gathered(k, box, v))
      return static_cast<int>(std::ranges::find(axes, static_cast<std::int64_t>(v)) - axes.begin());
  return -1;
}

}  // namespace tegula::ir
