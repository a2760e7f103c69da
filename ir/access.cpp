#include "ir/access.h"

#include <algorithm>

#include "ir/layout/layout_ops.h"

namespace tegula::ir {
namespace {

/// Operands before the view: shared tile, slot, channel.
std::size_t target_count(Opcode op) {
  return op == Opcode::CopyAsync ? 2 : op == Opcode::CopyTma ? 3 : 0;
}

bool has_multicast_flag(const Kernel& k, const OpData& op) {
  return op.opcode == Opcode::CopyTma && k.type(op.operands.back()) == Type::scalar(DType::i1);
}

/// Returns true if `op` copies boxes of pages: operands after the view are the offsets of each box
/// and a number of rows.
bool copies_pages(const Kernel& k, const OpData& op, std::size_t after_view, std::size_t rank) {
  return op.opcode == Opcode::CopyTma && !has_multicast_flag(k, op) && rank > 1 &&
         after_view > rank && after_view % rank == 1;
}

void set_attrs(AttrList& attrs, const BoxAccess& a) {
  attrs.set(AttrName::axes, a.along);
  Ints inside;
  for (std::size_t v = 0; v < a.axes.size(); ++v)
    if (a.axes[v].in_bounds) inside.push_back(static_cast<std::int64_t>(v));
  if (inside.empty() && !a.has_limits())
    attrs.erase(AttrName::in_bounds);
  else
    attrs.set(AttrName::in_bounds, inside);
  if (a.divisor != 0) attrs.set(AttrName::offset_divisibility, a.divisor);
}

}  // namespace

int BoxAccess::gathered_dim() const {
  const auto first = std::ranges::find_if(axes, &AccessAxis::is_gathered);
  return first == axes.end() ? -1 : first->tile_dim;
}

BoxAccess BoxAccess::box(std::size_t i) const {
  BoxAccess one = *this;
  one.next_boxes.clear();
  for (std::size_t v = 0; v < axes.size(); ++v) {
    if (i > 0) one.axes[v].offset = next_boxes[i - 1][v];
    if (axes[v].tile_dim == 0) one.axes[v].extent /= static_cast<std::int64_t>(boxes());
  }
  return one;
}

bool is_access(Opcode op) {
  using enum Opcode;
  return op == LoadView || op == StoreView || op == AtomicView || op == CopyAsync || op == CopyTma;
}

std::string_view why_not_access(const Kernel& k, const OpData& op) {
  const bool stores = op.is(Opcode::StoreView, Opcode::AtomicView);
  const std::size_t view_operand = target_count(op.opcode), first = view_operand + (stores ? 2 : 1);
  const Type view = view_operand < op.operands.size() ? k.type(op.operands[view_operand]) : Type();
  if (!view.is_view()) return "has no view";
  const auto rank = static_cast<std::size_t>(view.rank());
  const std::size_t end = op.operands.size() - (has_multicast_flag(k, op) ? 1 : 0);
  if (end != first + rank && end != first + 2 * rank &&
      (end < first || !copies_pages(k, op, end - first, rank)))
    return "takes an offset, and may take a limit, for each dimension of the view";
  const auto along = op.attrs.ints(AttrName::axes);
  const auto is_axis = [&](std::int64_t v) { return v >= 0 && v < view.rank(); };
  if (!std::ranges::all_of(along, is_axis) ||
      !std::ranges::all_of(op.attrs.ints(AttrName::in_bounds), is_axis))
    return "has an axis that the view lacks";
  const Type tile = k.type(stores             ? op.operands[view_operand + 1]
                           : view_operand > 0 ? op.operands[0]
                                              : op.results[0]);
  return std::ssize(along) <= tile.rank() ? "" : "has an axis that its tile lacks";
}

Value accessed_view(const OpData& op) { return op.operands[target_count(op.opcode)]; }
Value stored_value(const OpData& op) { return op.operands[target_count(op.opcode) + 1]; }
Value filled_tile(const OpData& copy) { return copy.operands[0]; }

BoxAccess access_of(const Kernel& k, const OpData& op) {
  BoxAccess a;
  auto operand = op.operands.begin();
  a.target.assign(operand, operand + static_cast<std::ptrdiff_t>(target_count(op.opcode)));
  operand += std::ssize(a.target);
  a.view = *operand++;
  if (op.is(Opcode::StoreView, Opcode::AtomicView)) a.stored = *operand++;
  a.tile = k.type(a.stored ? a.stored : a.target.empty() ? op.results[0] : a.target[0]);
  const auto along = op.attrs.ints(AttrName::axes);
  a.along.assign(along.begin(), along.end());
  a.axes.resize(static_cast<std::size_t>(k.type(a.view).rank()));
  for (AccessAxis& axis : a.axes) axis.offset = *operand++;
  if (has_multicast_flag(k, op)) a.multicast = op.operands.back();
  const std::size_t rank = a.axes.size();
  const auto remaining = static_cast<std::size_t>(op.operands.end() - operand);
  if (copies_pages(k, op, remaining + rank, rank)) {
    a.rows = op.operands.back();
    for (std::size_t i = 0; i < remaining / rank; ++i, operand += std::ssize(a.axes))
      a.next_boxes.emplace_back(operand, operand + std::ssize(a.axes));
  } else if (remaining > (a.multicast ? 1U : 0U)) {
    for (AccessAxis& axis : a.axes) axis.limit = *operand++;
  }
  const auto slots = static_cast<std::size_t>(a.tile.rank()) - along.size();
  for (std::size_t t = 0; t < along.size(); ++t) {
    AccessAxis& axis = a.axes[static_cast<std::size_t>(along[t])];
    axis.tile_dim = static_cast<int>(t);
    axis.extent = a.tile.shape()[slots + t];
    axis.kind = AccessAxis::Kind::Box;
  }
  for (AccessAxis& axis : a.axes)
    if (k.type(axis.offset).is_tile()) axis.kind = AccessAxis::Kind::IndexTile;
  for (const std::int64_t v : op.attrs.ints(AttrName::in_bounds))
    a.axes[static_cast<std::size_t>(v)].in_bounds = true;
  a.divisor = op.attrs.i(AttrName::offset_divisibility);
  return a;
}

BoxAccess box_of(Value view, std::span<const Value> offsets, std::span<const std::int64_t> along,
                 Value stored) {
  BoxAccess a;
  a.view = view;
  a.stored = stored;
  a.along.assign(along.begin(), along.end());
  for (const Value offset : offsets) a.axes.emplace_back().offset = offset;
  return a;
}

std::vector<Value> operands_of(const BoxAccess& a) {
  std::vector<Value> all = a.target;
  all.push_back(a.view);
  if (a.stored) all.push_back(a.stored);
  for (const AccessAxis& axis : a.axes) all.push_back(axis.offset);
  for (const AccessAxis& axis : a.axes)
    if (axis.limit) all.push_back(axis.limit);
  for (const std::vector<Value>& offsets : a.next_boxes)
    all.insert(all.end(), offsets.begin(), offsets.end());
  if (a.rows) all.push_back(a.rows);
  if (a.multicast) all.push_back(a.multicast);
  return all;
}

void set_access(OpData& op, const BoxAccess& access) {
  const std::vector<Value> operands = operands_of(access);
  op.operands.assign(operands.begin(), operands.end());
  set_attrs(op.attrs, access);
}

OpId create_access(Builder& b, Opcode opcode, const BoxAccess& access, AttrList attrs,
                   Type result) {
  set_attrs(attrs, access);
  return b.create(opcode, operands_of(access), std::span(&result, result ? 1 : 0),
                  std::move(attrs));
}

const LinearLayout* index_tile_layout(const LinearLayout& box, int gathered_dim) {
  LinearLayout line = box;
  for (int d = box.rank() - 1; d >= 0; --d)
    if (d != gathered_dim) line = slice(line, d);
  return intern_layout(line);
}

}  // namespace tegula::ir
