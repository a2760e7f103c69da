// Evaluates a mask over a block, and cuts undecided blocks.
#include "ir/analysis/mask/blocks.h"

#include <algorithm>

#include "ir/analysis/mask/transfer.h"
#include "tegula/int_math.h"

namespace tegula::ir {
namespace {

using Kind = MaskNode::Kind;

}  // namespace

MaskBlocks::MaskBlocks(const MaskExpr& expr)
    : expr_(expr), values_(expr.nodes.size()), wraps_(expr.nodes.size()) {}

BlockCoverage MaskBlocks::classify(const MaskBlock& b, const MaskParams& params, int cuts) {
  if (b.q0 >= b.q1 || b.kv0 >= b.kv1) return BlockCoverage::Empty;
  return refine(
      {Interval::point(b.batch), Interval::point(b.head), {b.q0, b.q1 - 1}, {b.kv0, b.kv1 - 1}},
      params, cuts);
}

BlockCoverage MaskBlocks::refine(const Ranges& ranges, const MaskParams& params, int& cuts) {
  evaluate(ranges, params);
  const Interval truth = values_[expr_.root].range;
  if (truth.lo == 1) return BlockCoverage::Full;
  if (truth.hi == 0) return BlockCoverage::Empty;
  if ((!cut_query_ && !cut_key_) || cuts <= 0) return BlockCoverage::Partial;
  --cuts;
  Ranges first = ranges, second = ranges;
  const bool along_key = cut_key_.has_value();
  const std::int64_t threshold = along_key ? *cut_key_ : *cut_query_;
  (along_key ? first.key : first.query).hi = threshold - 1;
  (along_key ? second.key : second.query).lo = threshold;
  const BlockCoverage one = refine(first, params, cuts);
  if (one == BlockCoverage::Partial) return one;
  return refine(second, params, cuts) == one ? one : BlockCoverage::Partial;
}

MaskValue MaskBlocks::leaf(const MaskNode& node, MaskNodeId id, const Ranges& ranges,
                           const MaskParams& params) const {
  MaskValue v{Interval::of(node.dtype), {}, Linear::symbol(id)};
  const auto slot = static_cast<std::size_t>(node.value);
  switch (node.kind) {
    case Kind::Batch:
      v.range = ranges.batch;
      break;
    case Kind::Head:
      v.range = ranges.head;
      break;
    case Kind::Query:
      v.range = ranges.query;
      break;
    case Kind::Key:
      v.range = ranges.key;
      break;
    case Kind::Const:
      v.range = Interval::point(node.value);
      break;
    case Kind::Param:
      if (slot < params.numbers.size()) v.range = Interval::point(params.numbers[slot]);
      break;
    case Kind::Op:
    case Kind::Table:
    case Kind::Unknown:
      break;
  }
  return v;
}

void MaskBlocks::evaluate(const Ranges& ranges, const MaskParams& params) {
  cut_query_.reset();
  cut_key_.reset();
  for (MaskNodeId id = 0; id < expr_.nodes.size(); ++id) {
    const MaskNode& node = expr_.nodes[id];
    current_ = id;
    if (node.kind == Kind::Table) {
      finish(id, look_up(node, id, params));
      continue;
    }
    if (node.kind != Kind::Op) {
      finish(id, leaf(node, id, ranges, params));
      continue;
    }
    const MaskTransfer::Fn transfer = MaskTransfer::of(node.opcode);
    MaskTransfer step{*this, node, id};
    finish(id, transfer ? transfer(step) : std::nullopt);
  }
}

/// Evaluates a table lookup. If the index may be out of bounds, the entry may have any value.
MaskValue MaskBlocks::look_up(const MaskNode& node, MaskNodeId id, const MaskParams& params) {
  MaskValue v{Interval::of(node.dtype), {}, Linear::symbol(id)};
  const auto slot = static_cast<std::size_t>(node.value);
  const MaskValue& index = values_[node.in[0]];
  if (slot >= params.tables.size() || !params.tables[slot].has(index.range)) return v;
  const MaskTable& table = params.tables[slot];
  v.range = table.range(index.range);
  if (table.is_ascending() && !v.range.is_point())
    suggest(index.form, table.first_at_least(v.range.lo + 1));
  return v;
}

/// Stores the mathematical result as the node's value. A result that may not fit the node's type
/// may wrap, and the value becomes unknown.
void MaskBlocks::finish(MaskNodeId id, std::optional<MaskValue> v) {
  const Interval all = Interval::of(expr_[id].dtype);
  if (v) reduce(*v);
  wraps_[id] = !v || !v->range.is_within(all);
  if (wraps_[id]) v = MaskValue{all, {}, Linear::symbol(id)};
  if (v->range.is_point()) {
    v->stride = Congruence::point(v->range.lo);
    v->form = Linear::number(v->range.lo);
  }
  values_[id] = *v;
}

void MaskBlocks::reduce(MaskValue& v) const {
  // The current node as its own symbol adds no information, and its range is not known yet.
  const bool is_self = v.form.count == 1 && v.form.terms[0].symbol == current_;
  if (!is_self) {
    if (const auto range = range_of(v.form)) v.range = meet(v.range, *range);
    v.stride = stronger(v.stride, stride_of(v.form));
  }
  v.range = tighten(v.range, v.stride);
}

std::optional<Interval> MaskBlocks::range_of(const Linear& form) const {
  Interval sum = Interval::point(form.constant);
  for (const Linear::Term& t : form) {
    const auto term = scale(values_[t.symbol].range, t.factor);
    const auto total = term ? add(sum, *term) : std::nullopt;
    if (!total) return std::nullopt;
    sum = *total;
  }
  return sum;
}

Congruence MaskBlocks::stride_of(const Linear& form) const {
  Congruence sum = Congruence::point(form.constant);
  for (const Linear::Term& t : form) sum = add(sum, scale(values_[t.symbol].stride, t.factor));
  return sum;
}

void MaskBlocks::suggest(const Linear& form, std::optional<std::int64_t> threshold) {
  if (form.count != 1 || !threshold) return;
  const auto [symbol, factor] = form.terms[0];
  const Kind kind = expr_[symbol].kind;
  auto& cut = kind == Kind::Key ? cut_key_ : cut_query_;
  if ((kind != Kind::Key && kind != Kind::Query) || cut) return;
  const auto distance = form.constant == std::numeric_limits<std::int64_t>::min()
                            ? std::nullopt
                            : checked_add(*threshold, -form.constant);
  if (!distance || *distance == std::numeric_limits<std::int64_t>::min()) return;
  const std::int64_t boundary =
      factor > 0 ? ceil_div(*distance, factor) : floor_div(-*distance, -factor) + 1;
  const Interval range = values_[symbol].range;
  if (range.lo < boundary && boundary <= range.hi) cut = boundary;
}

}  // namespace tegula::ir
