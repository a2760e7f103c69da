#include "kernels/attention/mask_limits.h"

#include <algorithm>
#include <iterator>

namespace tegula {

using ir::Interval;
using ir::Linear;
using ir::MaskFormula;
using ir::MaskNode;
using ir::MaskNodeId;

MaskLimits::MaskLimits(const ir::MaskClosedForm& form, const Numbers& numbers)
    : form_(form), numbers_(numbers), blocks_(form.expr) {
  blocks_.evaluate({kMaskPositions, kMaskPositions, kMaskPositions, kMaskPositions}, {});
}

MaskLimits::Solution MaskLimits::solve(const ir::MaskCondition& c) const {
  Solution s;
  std::ranges::copy_if(c.exact, std::back_inserter(s.if_fits),
                       [&](MaskNodeId id) { return may_wrap(id); });
  if (c.steps.empty()) return s.if_fits.empty() ? Solution{{}, truth(c)} : Solution{};
  s.limit = limit(c);
  if (!s.limit) return {};
  for (const Linear::Term& t : s.limit->form) {
    if (!is_symbol(t.symbol)) return {};
    if (may_wrap(t.symbol) && query_divisor(t.symbol)) s.if_fits.push_back(t.symbol);
  }
  if (s.limit->times) s.if_fits.push_back(c.steps[0].symbol);
  const bool can_check =
      std::ranges::all_of(s.if_fits, [&](MaskNodeId id) { return is_checkable(id); });
  return can_check ? s : Solution{};
}

bool MaskLimits::is_checkable(MaskNodeId id) const {
  const MaskNode& n = node(id);
  if (n.kind != MaskNode::Kind::Op) return n.kind != MaskNode::Kind::Param || number(id);
  if (n.dtype != DType::i32 || !is_checkable(n.in[0])) return false;
  switch (n.opcode) {
    case ir::Opcode::Neg:
      return true;
    case ir::Opcode::Add:
    case ir::Opcode::Sub:
    case ir::Opcode::Mul:
      return is_checkable(n.in[1]);
    case ir::Opcode::Div:
    case ir::Opcode::Rem:
      return is_divisor(n.in[1]);
    default:
      return false;
  }
}

Interval MaskLimits::truth_of_opaque(const MaskFormula& f) const {
  const Interval t = blocks_.value(f.index).range;
  return f.negated ? Interval{1 - t.hi, 1 - t.lo} : t;
}

Interval MaskLimits::truth(const ir::MaskCondition& c) const {
  const auto range = blocks_.range_of(c.form);
  if (!range) return {0, 1};
  const bool never = range->hi < c.target.lo || range->lo > c.target.hi;
  return {range->is_within(c.target), !never};
}

std::optional<MaskLimits::Limit> MaskLimits::limit(const ir::MaskCondition& c) const {
  const bool below = c.target.lo == ir::kMinusInfinity;
  const ir::MaskStep& step = c.steps[0];
  if (below == (c.target.hi == ir::kPlusInfinity) || (step.factor != 1 && step.factor != -1))
    return std::nullopt;
  // factor * symbol + rest against one number: symbol against factor * (number - rest).
  auto form = add(Linear::number(below ? c.target.hi : c.target.lo), step.rest, -1);
  if (form) form = add(Linear::number(0), *form, step.factor);
  const bool is_upper = below == (step.factor > 0);
  if (form && is_upper) form = add(*form, Linear::number(1));
  if (!form) return std::nullopt;
  Limit found{*form, is_upper};
  if (node(step.symbol).kind == MaskNode::Kind::Key) return found;
  const auto by = divisor(c);
  if (!by) return std::nullopt;
  // Positions are not negative, so that kv / n < x is kv < n * x, and likewise for >=, whatever x
  // is.
  if (node(*by).kind == MaskNode::Kind::Param) {
    found.times = by;
    return found;
  }
  const auto scaled = add(Linear::number(0), *form, node(*by).value);
  if (!scaled) return std::nullopt;
  found.form = *scaled;
  return found;
}

bool MaskLimits::is_divisor(MaskNodeId id) const {
  const MaskNode& n = node(id);
  return n.kind == MaskNode::Kind::Const ? n.value > 0 : number(id) != nullptr;
}

/// n if the condition is on kv / n.
std::optional<MaskNodeId> MaskLimits::divisor(const ir::MaskCondition& c) const {
  const MaskNode& symbol = node(c.steps[0].symbol);
  if (c.steps.size() != 2 || !symbol.is_op(ir::Opcode::Div)) return std::nullopt;
  const ir::MaskStep& inner = c.steps[1];
  const bool of_key = node(inner.symbol).kind == MaskNode::Kind::Key && inner.factor == 1 &&
                      inner.rest.count == 0 && inner.rest.constant == 0;
  return of_key && is_divisor(symbol.in[1]) ? std::optional(symbol.in[1]) : std::nullopt;
}

std::optional<MaskNodeId> MaskLimits::query_divisor(MaskNodeId id) const {
  const MaskNode& n = node(id);
  const bool is_quotient = n.is_op(ir::Opcode::Div) && node(n.in[0]).kind == MaskNode::Kind::Query;
  if (!is_quotient || !is_divisor(n.in[1])) return std::nullopt;
  const MaskNode& by = node(n.in[1]);
  const bool is_small = by.kind != MaskNode::Kind::Const || by.value <= kMaskPositions.hi;
  return is_small ? std::optional(n.in[1]) : std::nullopt;
}

std::shared_ptr<detail::ScalarCell> MaskLimits::number(MaskNodeId id) const {
  const MaskNode& n = node(id);
  if (n.kind != MaskNode::Kind::Param || n.dtype != DType::i32) return nullptr;
  return numbers_[static_cast<std::size_t>(n.value)];
}

bool MaskLimits::is_symbol(MaskNodeId id) const {
  return node(id).kind == MaskNode::Kind::Query || number(id) || query_divisor(id);
}

// ---- the shape of what is visible
std::optional<std::size_t> MaskLimits::intervals() const {
  const Shapes of = shapes(form_.formula);
  return of ? std::optional(of->size()) : std::nullopt;
}

MaskLimits::Shapes MaskLimits::decided(Interval truth) {
  if (!truth.is_point()) return std::nullopt;
  return truth.lo ? std::vector{Shape{}} : std::vector<Shape>{};
}

MaskLimits::Shapes MaskLimits::shapes(const MaskFormula& f) const {
  if (f.kind == MaskFormula::Kind::Opaque) return decided(truth_of_opaque(f));
  if (f.kind == MaskFormula::Kind::Condition) {
    const Solution s = solve(form_.conditions[f.index]);
    if (s.truth) return decided(*s.truth);
    if (!s.limit) return std::nullopt;
    return std::vector{Shape{!s.limit->is_upper, s.limit->is_upper}};
  }
  const bool all = f.kind == MaskFormula::Kind::All;
  std::vector<Shape> sum;
  if (all) sum.push_back({});
  for (const MaskFormula& part : f.parts) {
    const Shapes s = shapes(part);
    if (!s) return std::nullopt;
    sum = all ? intersection(sum, *s) : united(sum, *s);
    if (sum.size() > kMaxParts) return std::nullopt;
  }
  return sum;
}

}  // namespace tegula
