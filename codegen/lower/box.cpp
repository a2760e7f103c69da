// Addresses: base + sum over dimensions of (offset + thread + constant) * stride. Constants along
// unit strides come last, so that they end up as immediates of the memory instruction.
#include "codegen/lower/box.h"

#include <algorithm>

#include "codegen/lower/pointers.h"
#include "ir/analysis/access_width.h"
#include "ir/layout/layout_ops.h"
#include "ir/layout/linear_layout.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

Box::Box(Lowering& l, OpId op)
    : l_(l), op_(op), a_(access_of(l.from, l.from[op])), view_type_(l.from.type(a_.view)) {
  for (const AccessAxis& axis : a_.axes) offsets_.push_back(l.get(axis.offset));
  if (!offsets_.empty()) index_ = l.type(offsets_.front()).dtype();
  for (std::size_t v = 0; v < a_.axes.size(); ++v) limits_.push_back(limit(v));
  base = l.view_pointer(a_.view);
  gathered_ = a_.gathered_dim();
  for (std::size_t v = 0; v < a_.axes.size(); ++v) {
    if (a_.axes[v].is_gathered()) continue;
    const Value stride = l.view_stride(a_.view, static_cast<int>(v), index_);
    const Value term = l.b.mul(offsets_[v], stride);
    offset = offset ? l.b.add(offset, term) : term;
    if (a_.axes[v].tile_dim >= 0 || a_.axes[v].in_bounds) continue;
    const DType u = index_ == DType::i32 ? DType::u32 : DType::u64;
    const Value unsigned_offset = l.b.op(Opcode::Bitcast, {offsets_[v]}, Type::scalar(u));
    const Value limit = l.b.op(Opcode::Bitcast, {limits_[v]}, Type::scalar(u));
    scalar_predicate = l.and_predicates(scalar_predicate, l.b.cmp("lt", unsigned_offset, limit));
  }
  // A view of rank 0 has no dimension to contribute an offset.
  if (!offset) offset = l.b.constant(Type::scalar(index_), std::int64_t{0});
}

/// Returns the exclusive bound of a guarded view dimension: the operand that narrows the box, else
/// the view's extent.
Value Box::limit(std::size_t v) {
  if (a_.axes[v].limit) return l_.get(a_.axes[v].limit);
  return a_.axes[v].in_bounds ? Value() : l_.view_dim(a_.view, static_cast<int>(v), index_);
}

std::vector<Vector> Box::vectors(const LinearLayout& layout, int max_bytes) const {
  const int t = contiguous_dim(l_.from, l_.from[op_]);
  if (t < 0) return global_vectors(layout, 0, 1);
  const int elements = access_elements(l_.from, l_.from[op_]);
  return global_vectors(
      layout, t, std::max(1, std::min(elements, max_bytes / size_bytes(view_type_.dtype()))));
}

Value Box::rows_inside(const std::vector<int>& leaders, const LinearLayout& layout, int t,
                       const IndexParts& parts) {
  const auto v = static_cast<std::size_t>(a_.along[static_cast<std::size_t>(t)]);
  const std::int64_t extent = layout.shape()[t];
  const std::vector<bool> padding = padded_registers(layout, t);
  const bool padded =
      std::ranges::any_of(leaders, [&](int r) { return padding[static_cast<std::size_t>(r)]; });
  const bool is_inside =
      a_.axes[v].in_bounds || t == gathered_;  // gathered indices are checked one by one
  if (is_inside && !padded) return {};
  // One comparison per distinct constant; registers that share the constant share the result.
  std::vector<std::int64_t> distinct;
  std::vector<std::int64_t> which;
  for (int r : leaders) {
    const std::int64_t c = parts.constant[static_cast<std::size_t>(r)];
    auto found = std::ranges::find(distinct, c);
    which.push_back(found - distinct.begin());
    if (found == distinct.end()) distinct.push_back(c);
  }
  Value index = l_.constants(index_, distinct);
  if (parts.thread) index = l_.b.add(index, l_.b.cast(parts.thread, index_));
  Value ok;
  if (padded) ok = l_.b.cmp("lt", index, l_.b.constant(Type::scalar(index_), extent));
  if (!is_inside) {
    // Unsigned comparison: a negative offset is out of bounds too.
    const DType u = index_ == DType::i32 ? DType::u32 : DType::u64;
    const Value position = l_.b.add(index, offsets_[v]);
    const Value unsigned_position =
        l_.b.op(Opcode::Bitcast, {position}, l_.type(position).with_dtype(u));
    const Value limit = l_.b.op(Opcode::Bitcast, {limits_[v]}, Type::scalar(u));
    ok = l_.and_predicates(ok, l_.b.cmp("lt", unsigned_position, limit));
  }
  return l_.regs(ok, which);
}

/// Returns offsets and predicates of the leaders' elements, taken from the index tiles. Each thread
/// holds the indices of exactly its elements (index_tile_layout), each once.
Box::Places Box::places(const std::vector<int>& leaders, const LinearLayout& layout) {
  const LinearLayout* line = index_tile_layout(layout, gathered_);
  LinearLayout wide = *line;
  for (int t = 0; t < layout.rank(); ++t)
    if (t != gathered_) wide = expand_dim(wide, t);
  const auto registers = broadcast_registers(wide, layout);
  if (!registers) throw InternalError("index tile: " + registers.reason());
  std::vector<std::int64_t> which;
  for (int r : leaders) which.push_back((*registers)[static_cast<std::size_t>(r)]);
  const DType u = index_ == DType::i32 ? DType::u32 : DType::u64;
  // Uses -1 as the index of padding: if it came through shared memory, it is undefined.
  const Value element = is_element(l_, *line);
  const Value nowhere = l_.b.constant(Type::scalar(index_), std::int64_t{-1});
  Places all;
  for (std::size_t v = 0; v < offsets_.size(); ++v) {
    if (!a_.axes[v].is_gathered()) continue;
    if (layout_of(l_.from.type(a_.axes[v].offset)) != *line)
      throw InternalError("an index tile in another layout than its box");
    const Value given = l_.as_vec(offsets_[v]);
    const Value index = element ? l_.b.select(element, given, nowhere) : given;
    const Value step = l_.b.mul(index, l_.view_stride(a_.view, static_cast<int>(v), index_));
    const Value unsigned_index = l_.b.op(Opcode::Bitcast, {index}, l_.type(index).with_dtype(u)),
                limit = l_.b.op(Opcode::Bitcast, {limits_[v]}, Type::scalar(u));
    all.offset = all.offset ? l_.b.add(all.offset, step) : step;
    all.predicate = l_.and_predicates(all.predicate, l_.b.cmp("lt", unsigned_index, limit));
  }
  return {l_.regs(all.offset, which), l_.regs(all.predicate, which)};
}

Box::Access Box::access(const std::vector<Vector>& vectors, const LinearLayout& layout) {
  std::vector<int> leaders;
  for (const Vector& v : vectors) leaders.push_back(v.registers.front());
  Value thread_offset = offset, dynamic, predicate;
  std::vector<std::int64_t> fixed_offsets(leaders.size(), 0);
  for (int t = 0; t < static_cast<int>(a_.along.size()); ++t) {
    const auto v = static_cast<std::size_t>(a_.along[static_cast<std::size_t>(t)]);
    const IndexParts parts = l_.index_parts(layout, t);
    if (t == gathered_) {
      const Places gathered = places(leaders, layout);
      predicate = l_.and_predicates(predicate, rows_inside(leaders, layout, t, parts));
      predicate = l_.and_predicates(predicate, gathered.predicate);
      dynamic = dynamic ? l_.b.add(dynamic, gathered.offset) : gathered.offset;
      continue;
    }
    const std::int64_t known = view_type_.view_facts().strides[v];
    const Value stride = l_.view_stride(a_.view, static_cast<int>(v), index_);
    if (parts.thread)
      thread_offset = l_.b.add(thread_offset, l_.b.mul(l_.b.cast(parts.thread, index_), stride));
    std::vector<std::int64_t> constants;
    for (int r : leaders) constants.push_back(parts.constant[static_cast<std::size_t>(r)]);
    if (known != kDynamic) {
      for (std::size_t i = 0; i < leaders.size(); ++i) fixed_offsets[i] += constants[i] * known;
    } else if (std::ranges::any_of(constants, [](std::int64_t c) { return c != 0; })) {
      const Value term = l_.b.mul(l_.constants(index_, constants), stride);
      dynamic = dynamic ? l_.b.add(dynamic, term) : term;
    }
    predicate = l_.and_predicates(predicate, rows_inside(leaders, layout, t, parts));
  }
  Value address = l_.b.op(Opcode::AddPtr, {base, thread_offset});
  if (dynamic) address = l_.b.op(Opcode::AddPtr, {address, dynamic});
  address = l_.b.op(Opcode::AddPtr, {address, l_.constants(index_, fixed_offsets)});
  if (scalar_predicate)
    predicate = predicate ? l_.and_predicates(predicate, scalar_predicate)
                          : l_.splat(scalar_predicate, static_cast<std::int64_t>(leaders.size()));
  return {address, predicate};
}

}  // namespace tegula::codegen
