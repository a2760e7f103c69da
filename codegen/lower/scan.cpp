// Lowering of scans. The pass assign_layouts gives a scan a layout in which a thread holds
// consecutive elements along the axis and the lanes of one warp hold consecutive runs: a prefix in
// the thread, then across the lanes.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/lower/lowering.h"
#include "codegen/lower/shuffle.h"
#include "ir/layout/linear_layout.h"
#include "ir/reduce_kind.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// rows[i]: for each line of the tile that the thread holds, its i-th register along the axis, in
/// scan order.
std::vector<std::vector<int>> lines(const LinearLayout& layout, int axis, bool reverse) {
  std::map<std::vector<int>, std::map<int, int>> by_line;
  for (int r = 0; r < layout.registers(); ++r) {
    const ir::Dims index = layout.apply({.reg = r});
    std::vector<int> rest;
    for (int d = 0; d < index.size(); ++d)
      if (d != axis) rest.push_back(index[d]);
    by_line[rest].try_emplace(reverse ? -index[axis] : index[axis], r);
  }
  std::vector<std::vector<int>> rows(by_line.begin()->second.size());
  for (const auto& [rest, line] : by_line) {
    std::size_t i = 0;
    for (const auto& [at, reg] : line) rows[i++].push_back(reg);
  }
  return rows;
}

/// Sum of all lower lanes (higher if reverse) along the axis; the identity in the first.
Value lanes_before(Lowering& l, Value total, const LinearLayout& layout, int axis, bool reverse,
                   const ReduceKind& kind, Value identity) {
  Value running = total;
  const Value lane = l.coordinate(HwDim::Lane);
  for (int bit = 0; bit < layout.in_bits(HwDim::Lane); ++bit) {
    if (layout.basis(HwDim::Lane, bit)[axis] == 0)
      throw InternalError("scan: lanes do not lie along the axis");
    const Value moved = shuffle(l, running, l.b.i32(1 << bit), reverse ? "down" : "up");
    const Value has = reverse ? l.b.cmp("lt", lane, l.b.i32(32 - (1 << bit)))
                              : l.b.cmp("ge", lane, l.b.i32(1 << bit));
    running = l.b.select(has, l.b.op(kind.op, {moved, running}), running);
  }
  const Value moved = shuffle(l, running, l.b.i32(1), reverse ? "down" : "up");
  const Value first = reverse ? l.b.cmp("eq", lane, l.b.i32(31)) : l.b.cmp("eq", lane, l.b.i32(0));
  return l.b.select(first, identity, moved);
}

/// Padding stands behind the last element, so it comes first where the scan runs backwards.
Value without_padding(Lowering& l, Value v, const LinearLayout& layout, int axis, Value identity) {
  if (layout.cover()[axis] == layout.shape()[axis]) return v;
  const IndexParts parts = l.index_parts(layout, axis);
  Value index = l.constants(DType::i32, parts.constant);
  if (parts.thread) index = l.b.add(index, parts.thread);
  return l.b.select(l.b.cmp("lt", index, l.b.i32(layout.shape()[axis])), v, identity);
}

}  // namespace

void lower_Scan(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const LinearLayout& layout = layout_of(l.from.type(d.results[0]));
  const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
  const bool reverse = d.attrs.i(AttrName::reverse) != 0,
             exclusive = d.attrs.i(AttrName::exclusive) != 0;
  const DType dtype = l.from.type(d.results[0]).dtype();
  const DType wide = is_float(dtype) && size_bits(dtype) < 32 ? DType::f32 : dtype;
  const ReduceKind& kind = reduce_kind(d.attrs.s(AttrName::kind));
  const Value identity = kind.identity(l.b, wide);
  const Value value =
      without_padding(l, l.b.cast(l.get(d.operands[0]), wide), layout, axis, identity);
  const auto rows = lines(layout, axis, reverse);
  std::vector<Value> prefix;
  for (const auto& row : rows) {
    const Value v = l.regs(value, row);
    prefix.push_back(prefix.empty() ? v : l.b.op(kind.op, {prefix.back(), v}));
  }
  Value before = lanes_before(l, prefix.back(), layout, axis, reverse, kind, identity);
  // Lanes of NaN alone would hand it on.
  if (is_float(wide) && (kind.op == Opcode::Max || kind.op == Opcode::Min))
    before = l.b.op(kind.op, {before, identity});
  std::vector<Value> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!exclusive)
      out.push_back(l.b.op(kind.op, {before, prefix[i]}));
    else
      out.push_back(i == 0 ? before : l.b.op(kind.op, {before, prefix[i - 1]}));
  }
  std::vector<std::int64_t> back(static_cast<std::size_t>(layout.registers()), 0);
  const std::size_t width = rows.front().size();
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t line = 0; line < width; ++line)
      back[static_cast<std::size_t>(rows[i][line])] = static_cast<std::int64_t>(i * width + line);
  l.set(d.results[0], l.b.cast(l.regs(l.concat(out), back), dtype));
}

}  // namespace tegula::codegen
