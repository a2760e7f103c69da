#include "kernels/attention/mask_limits.h"

#include <algorithm>

namespace tegula {

using ir::Interval;
using ir::Linear;
using ir::MaskFormula;
using ir::MaskNode;

MaskLimits::MaskLimits(const ir::MaskClosedForm& form, const Numbers& numbers)
    : form_(form), numbers_(numbers), blocks_(form.expr) {
  blocks_.evaluate({kMaskPositions, kMaskPositions, kMaskPositions, kMaskPositions}, {});
}

MaskLimits::Solution MaskLimits::solve(const ir::MaskCondition& c) const {
  const bool wraps =
      std::ranges::any_of(c.exact, [&](ir::MaskNodeId id) { return blocks_.may_wrap(id); });
  if (wraps) return {};
  if (c.steps.empty()) return {{}, truth(c)};
  auto found = limit(c);
  const bool is_usable = found && std::ranges::all_of(found->form, [&](const Linear::Term& t) {
                           return is_symbol(t.symbol);
                         });
  return is_usable ? Solution{found, {}} : Solution{};
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
  const auto size = divisor(c);
  if (form && size) form = add(Linear::number(0), *form, *size);
  return form && size ? std::optional(Limit{*form, is_upper}) : std::nullopt;
}

/// n if the condition is on kv / n, 1 if on kv. Positions are not negative, so that kv / n < x is
/// kv < n * x, and likewise for >=, whatever x is.
std::optional<std::int64_t> MaskLimits::divisor(const ir::MaskCondition& c) const {
  const MaskNode& symbol = node(c.steps[0].symbol);
  if (symbol.kind == MaskNode::Kind::Key) return 1;
  if (c.steps.size() != 2 || !symbol.is_op(ir::Opcode::Div)) return std::nullopt;
  const ir::MaskStep& inner = c.steps[1];
  const bool of_key = node(inner.symbol).kind == MaskNode::Kind::Key && inner.factor == 1 &&
                      inner.rest.count == 0 && inner.rest.constant == 0;
  return of_key ? positive_constant(symbol.in[1]) : std::nullopt;
}

std::optional<std::int64_t> MaskLimits::positive_constant(ir::MaskNodeId id) const {
  const MaskNode& n = node(id);
  return n.kind == MaskNode::Kind::Const && n.value > 0 ? std::optional(n.value) : std::nullopt;
}

std::optional<std::int64_t> MaskLimits::query_divisor(ir::MaskNodeId id) const {
  const MaskNode& n = node(id);
  if (!n.is_op(ir::Opcode::Div) || node(n.in[0]).kind != MaskNode::Kind::Query) return std::nullopt;
  const auto by = positive_constant(n.in[1]);
  return by && !blocks_.may_wrap(id) && *by <= kMaskPositions.hi ? by : std::nullopt;
}

std::shared_ptr<detail::ScalarCell> MaskLimits::number(ir::MaskNodeId id) const {
  const MaskNode& n = node(id);
  if (n.kind != MaskNode::Kind::Param || n.dtype != DType::i32) return nullptr;
  return numbers_[static_cast<std::size_t>(n.value)];
}

bool MaskLimits::is_symbol(ir::MaskNodeId id) const {
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
