#include "ir/analysis/mask/solved_conditions.h"

#include <algorithm>

#include "ir/op_table.h"

namespace tegula::ir {
namespace {

/// Requirement on an op's second operand for MaskOverflow to support the op: none, that it is
/// supported itself, or that it is a divisor. Ops without a row are not supported.
enum class OverflowCondition : std::uint8_t { Unknown, None, Followed, Divisor };
constexpr auto kFollowed = op_table<OverflowCondition>({
    {Opcode::Neg, OverflowCondition::None},
    {Opcode::Add, OverflowCondition::Followed},
    {Opcode::Sub, OverflowCondition::Followed},
    {Opcode::Mul, OverflowCondition::Followed},
    {Opcode::Div, OverflowCondition::Divisor},
    {Opcode::Rem, OverflowCondition::Divisor},
});

}  // namespace

Interval truth_of(const MaskCondition& c, const MaskBlocks& blocks) {
  const auto range = blocks.range_of(c.form);
  if (!range) return {0, 1};
  const bool never = range->hi < c.target.lo || range->lo > c.target.hi;
  return {range->is_within(c.target), !never};
}

SolvedConditions::SolvedConditions(const MaskClosedForm& form, const std::vector<bool>& is_scalar)
    : form_(form), is_scalar_(is_scalar), blocks_(form.expr) {
  blocks_.evaluate({kMaskPositions, kMaskPositions, kMaskPositions, kMaskPositions}, {});
}

SolvedConditions::Solution SolvedConditions::solve(const MaskCondition& c) const {
  Solution s;
  for (const MaskNodeId id : c.exact)
    if (may_overflow(id)) s.overflow_checks.push_back(id);
  if (c.steps.empty())
    return s.overflow_checks.empty() ? Solution{{}, truth_of(c, blocks_)} : Solution{};
  s.limit = limit(c);
  if (!s.limit || !are_symbols(s.limit->form)) return {};
  if (s.limit->of) collect_wrapping(c.steps[0].symbol, s.overflow_checks);
  for (const Linear::Term& t : s.limit->form) collect_wrapping(t.symbol, s.overflow_checks);
  return are_checkable(s.overflow_checks) ? s : Solution{};
}

bool SolvedConditions::is_of_rows(const MaskFormula& f) const {
  const MaskNode& n = node(f.index);
  const bool is_order = n.is_op(Opcode::Cmp) && (n.pred == MaskPred::Lt || n.pred == MaskPred::Le);
  const auto rises = [&](MaskNodeId id) { return is_symbol(id) || is_rising(id); };
  const auto compares = [&](std::size_t a, std::size_t b) {
    return rises(n.in[a]) && is_number(n.in[b]);
  };
  return is_order && !truth_of_opaque(f).is_point() && (compares(0, 1) || compares(1, 0)) &&
         are_checkable(wrapping(f.index));
}

std::vector<MaskNodeId> SolvedConditions::wrapping(MaskNodeId id) const {
  std::vector<MaskNodeId> nodes;
  collect_wrapping(id, nodes);
  return nodes;
}

bool SolvedConditions::are_checkable(const std::vector<MaskNodeId>& nodes) const {
  return std::ranges::all_of(nodes, [&](MaskNodeId id) { return is_checkable(id); });
}

void SolvedConditions::collect_wrapping(MaskNodeId id, std::vector<MaskNodeId>& into) const {
  const MaskNode& n = node(id);
  if (n.kind != MaskNode::Kind::Op) return;
  if (may_overflow(id)) into.push_back(id);
  for (std::size_t i = 0; i < n.operands; ++i) collect_wrapping(n.in[i], into);
}

bool SolvedConditions::is_checkable(MaskNodeId id) const {
  const MaskNode& n = node(id);
  if (n.kind != MaskNode::Kind::Op)
    return n.kind == MaskNode::Kind::Query || n.kind == MaskNode::Kind::Key || is_number(id);
  if (n.dtype != DType::i32 || !is_checkable(n.in[0])) return false;
  const OverflowCondition second = kFollowed[static_cast<std::size_t>(n.opcode)];
  if (second == OverflowCondition::Followed) return is_checkable(n.in[1]);
  if (second == OverflowCondition::Divisor) return is_divisor(n.in[1]);
  return second == OverflowCondition::None;
}

Interval SolvedConditions::truth_of_opaque(const MaskFormula& f) const {
  const Interval t = blocks_.value(f.index).range;
  return f.negated ? Interval{1 - t.hi, 1 - t.lo} : t;
}

std::optional<SolvedConditions::Limit> SolvedConditions::limit(const MaskCondition& c) const {
  const bool below = c.target.lo == kMinusInfinity;
  const MaskStep& step = c.steps[0];
  if (below == (c.target.hi == kPlusInfinity) || (step.factor != 1 && step.factor != -1))
    return std::nullopt;
  // factor * symbol + rest compared with a number is symbol compared with factor * (number - rest).
  auto form = add(Linear::number(below ? c.target.hi : c.target.lo), step.rest, -1);
  if (form) form = add(Linear::number(0), *form, step.factor);
  const bool is_upper = below == (step.factor > 0);
  if (form && is_upper) form = add(*form, Linear::number(1));
  if (!form) return std::nullopt;
  Limit found{*form, is_upper};
  if (node(step.symbol).kind == MaskNode::Kind::Key) return found;
  found.of = quotient(c);
  if (!found.of) return std::nullopt;
  const MaskNode& by = node(found.of->by);
  const bool is_plain = found.of->offset.count == 0 && found.of->offset.constant == 0;
  if (by.kind == MaskNode::Kind::Param || !is_plain) return found;
  // Positions are not negative, so kv / n < x is equivalent to kv < n * x for any x, and likewise
  // for >=.
  const auto scaled = add(Linear::number(0), *form, by.value);
  return scaled ? std::optional(Limit{*scaled, is_upper}) : std::nullopt;
}

bool SolvedConditions::is_divisor(MaskNodeId id) const {
  const MaskNode& n = node(id);
  return n.kind == MaskNode::Kind::Const ? n.value > 0 : is_scalar(id);
}

std::optional<SolvedConditions::Quotient> SolvedConditions::quotient(const MaskCondition& c) const {
  const MaskNode& symbol = node(c.steps[0].symbol);
  if (c.steps.size() != 2 || !symbol.is_op(Opcode::Div) || !is_divisor(symbol.in[1]))
    return std::nullopt;
  const MaskStep& inner = c.steps[1];
  const bool of_key = node(inner.symbol).kind == MaskNode::Kind::Key && inner.factor == 1 &&
                      std::ranges::all_of(inner.rest, [&](const Linear::Term& t) {
                        return is_scalar(t.symbol) && (t.factor == 1 || t.factor == -1);
                      });
  return of_key ? std::optional(Quotient{symbol.in[1], inner.rest}) : std::nullopt;
}

bool SolvedConditions::is_scalar(MaskNodeId id) const {
  const MaskNode& n = node(id);
  return n.kind == MaskNode::Kind::Param && n.dtype == DType::i32 &&
         is_scalar_[static_cast<std::size_t>(n.value)];
}

bool SolvedConditions::is_number(MaskNodeId id) const {
  return node(id).kind == MaskNode::Kind::Const || is_scalar(id);
}

bool SolvedConditions::is_rising(MaskNodeId id) const {
  const MaskNode& n = node(id);
  if (n.kind == MaskNode::Kind::Query) return true;
  if (n.is_op(Opcode::Add))
    return (is_rising(n.in[0]) && is_number(n.in[1])) || (is_number(n.in[0]) && is_rising(n.in[1]));
  return n.is_op(Opcode::Sub) && is_rising(n.in[0]) && is_number(n.in[1]);
}

bool SolvedConditions::is_symbol(MaskNodeId id) const {
  const MaskNode& n = node(id);
  if (n.kind == MaskNode::Kind::Query || is_scalar(id)) return true;
  const bool is_quotient = n.is_op(Opcode::Div) && n.dtype == DType::i32 && is_divisor(n.in[1]);
  if (!is_quotient || !is_rising(n.in[0])) return false;
  const MaskNode& by = node(n.in[1]);
  return by.kind != MaskNode::Kind::Const || by.value <= kMaskPositions.hi;
}

bool SolvedConditions::are_symbols(const Linear& form) const {
  return std::ranges::all_of(form, [&](const Linear::Term& t) { return is_symbol(t.symbol); });
}

Interval SolvedConditions::range_of_symbol(MaskNodeId id) const {
  const MaskNode& n = node(id);
  if (n.kind == MaskNode::Kind::Query) return kMaskPositions;
  if (n.kind == MaskNode::Kind::Param) return Interval::of(DType::i32);
  const MaskNode& by = node(n.in[1]);
  const Interval dividend = blocks_.value(n.in[0]).range;
  if (by.kind == MaskNode::Kind::Const) return {dividend.lo / by.value, dividend.hi / by.value};
  return hull(dividend, Interval::point(0));
}

// ---- shape of the visible keys
struct SolvedConditions::Shapes {
  /// Absent if some ends cannot be computed or there are too many; an empty set means no keys.
  using Set = std::optional<std::vector<Shape>>;
  const SolvedConditions& of;

  static Set constant(bool all) { return all ? std::vector{Shape{}} : std::vector<Shape>{}; }
  static Set decided(Interval truth) {
    return truth.is_point() ? constant(truth.lo != 0) : std::nullopt;
  }
  Set leaf(const MaskFormula& f) const {
    // A condition on rows makes all keys of a row visible or none, which an upper end expresses.
    if (f.kind == MaskFormula::Kind::Opaque)
      return of.is_of_rows(f) ? std::vector{Shape{false, true}} : decided(of.truth_of_opaque(f));
    const Solution s = of.solve(of.form_.conditions[f.index]);
    if (s.truth) return decided(*s.truth);
    if (!s.limit) return std::nullopt;
    return std::vector{Shape{!s.limit->is_upper, s.limit->is_upper}};
  }
  static Set both(const Set& a, const Set& b) {
    return a && b ? few(intersection(*a, *b)) : std::nullopt;
  }
  static Set either(const Set& a, const Set& b) {
    return a && b ? few(united(*a, *b)) : std::nullopt;
  }
  static Set few(std::vector<Shape> shapes) {
    return shapes.size() > kMaxSolutionIntervals ? std::nullopt : Set(std::move(shapes));
  }
};

std::optional<std::size_t> SolvedConditions::intervals() const {
  const auto shapes = fold(form_.formula, Shapes{*this});
  return shapes ? std::optional(shapes->size()) : std::nullopt;
}

bool SolvedConditions::is_single_comparison() const {
  if (form_.formula.kind != MaskFormula::Kind::Condition) return false;
  const Solution s = solve(form_.conditions[form_.formula.index]);
  return s.limit && s.limit->is_upper && !s.limit->of && s.overflow_checks.empty();
}

}  // namespace tegula::ir
