#include "dsl/block_mask/recorded_interval.h"

#include <bit>
#include <concepts>

#include "ir/analysis/mask/solved_conditions.h"
#include "ir/op_table.h"

namespace tegula {
namespace {

using ir::Interval;
using ir::MaskNode;
using ir::MaskNodeId;
using ir::MaskPred;
using ir::Opcode;
namespace rules = ir::interval_rules;
using Number = std::optional<RecordedInterval>;
using Condition = std::optional<ThreeValued>;

const Interval kNarrow = Interval::of(DType::i32);

Tile constant(std::int64_t v) { return full<i32>(static_cast<i32>(v)); }
TileBounds constants(Interval i) { return {constant(i.lo), constant(i.hi)}; }
/// Returns `b` if the condition, which is evaluated on the device, is true, else all of `range`.
TileBounds guarded(const Tile& condition, const TileBounds& b, Interval range) {
  const TileBounds otherwise = constants(range);
  return {where(condition, b.lo, otherwise.lo), where(condition, b.hi, otherwise.hi)};
}
TileBounds widened(const TileBounds& b) { return {cast<i64>(b.lo), cast<i64>(b.hi)}; }

/// One op of the mask. Derives what is known about its result from what is known about its
/// operands.
struct Step {
  const MaskNode& node;
  const std::vector<AbstractValue>& known;

  const Condition& truth(std::size_t i) const { return known[node.in[i]].truth; }
  /// Returns an operand as a number; a condition is 0 or 1.
  Number number(std::size_t i) const {
    if (const auto& t = truth(i))
      return RecordedInterval{{cast<i32>(t->lo), cast<i32>(t->hi)}, {0, 1}};
    return known[node.in[i]].number;
  }

  /// Applies a rule for numbers: in 32 bits if the result certainly fits, else in 64 bits. Bounds
  /// that do not fit in the node's type then become the whole range of the type.
  template <class Rule>
  Number applied(const Rule& rule) const {
    constexpr bool kOfOne = std::invocable<Rule, TileBounds>;
    const Number a = number(0), b = kOfOne ? a : number(1);
    if (!a || !b) return std::nullopt;
    const auto of = [&](const auto& x, const auto& y) {
      if constexpr (kOfOne)
        return rule(x);
      else
        return rule(x, y);
    };
    const Interval all = Interval::of(node.dtype);
    const auto range = fitted(of(ir::wide(a->range), ir::wide(b->range)));
    if (range && range->is_within(kNarrow) && range->is_within(all))
      return RecordedInterval{of(a->bounds, b->bounds), *range};
    // Sums, and single products, of i32 intervals fit in 64 bits.
    if (!range || node.dtype != DType::i32) return std::nullopt;
    const TileBounds w = of(widened(a->bounds), widened(b->bounds));
    const Tile inside = w.lo >= Tile(kNarrow.lo) && w.hi <= Tile(kNarrow.hi);
    return RecordedInterval{guarded(inside, {cast<i32>(w.lo), cast<i32>(w.hi)}, kNarrow), kNarrow};
  }
  /// Applies a rule for a division by a number that is uniform over the block. If the divisor is
  /// not positive in a launch, the result is the whole range.
  template <class Rule>
  Number divided(const Rule& rule) const {
    const Number a = number(0), b = number(1);
    if (!a || !b || !b->is_point) return std::nullopt;
    const Interval range =
        b->range.lo > 0 ? hull(a->range, Interval::point(0)) : Interval::of(node.dtype);
    if (!range.is_within(kNarrow)) return std::nullopt;
    const Tile by = max(b->bounds.lo, constant(1)), valid = b->bounds.lo > 0;
    return RecordedInterval{guarded(valid, rule(a->bounds, by), range), range};
  }
  /// Returns the second operand, if it is the same number in every launch.
  std::optional<std::int64_t> fixed() const {
    const Number b = number(1);
    if (!b || !b->is_point || !b->range.is_point()) return std::nullopt;
    return b->range.lo;
  }
  template <class Rule>
  Condition joined(const Rule& rule) const {
    return truth(0) && truth(1) ? Condition(rule(*truth(0), *truth(1))) : std::nullopt;
  }
};

// ---- numbers ------------------------------------------------------------------------------------
/// Returns the interval of x & (2^bits - 1).
Number low_bits(const Step& s) {
  const Number a = s.number(0);
  const auto mask = s.fixed();
  if (!a || !mask || *mask < 0 || ((*mask + 1) & *mask) != 0) return std::nullopt;
  const int bits = std::popcount(static_cast<std::uint64_t>(*mask));
  if (bits > 30) return std::nullopt;
  return RecordedInterval{rules::low_bits(a->bounds, bits), {0, *mask}};
}

Number shifted_right(const Step& s) {
  const Number a = s.number(0);
  const auto by = s.fixed();
  if (!a || !by || *by < 0 || *by > 31) return std::nullopt;
  const int bits = static_cast<int>(*by);
  return RecordedInterval{rules::shifted_right(a->bounds, bits),
                          *fitted(rules::shifted_right(ir::wide(a->range), bits))};
}

Number chosen_number(const Step& s) {
  const Condition& c = s.truth(0);
  const Number a = s.number(1), b = s.number(2);
  if (!c || !a || !b) return std::nullopt;
  return RecordedInterval{rules::chosen(*c, a->bounds, b->bounds), hull(a->range, b->range)};
}

Number converted(const Step& s) {
  const Number a = s.number(0);
  return a && a->range.is_within(Interval::of(s.node.dtype)) ? a : std::nullopt;
}

using NumberFn = Number (*)(const Step&);
constexpr auto kNumbers = ir::op_table<NumberFn>({
    {Opcode::Add, [](const Step& s) { return s.applied(rules::sum); }},
    {Opcode::Sub, [](const Step& s) { return s.applied(rules::difference); }},
    {Opcode::Neg, [](const Step& s) { return s.applied(rules::negation); }},
    {Opcode::Mul, [](const Step& s) { return s.applied(rules::product); }},
    {Opcode::Div, [](const Step& s) { return s.divided(rules::quotient); }},
    {Opcode::Rem, [](const Step& s) { return s.divided(rules::remainder); }},
    {Opcode::Abs, [](const Step& s) { return s.applied(rules::magnitude); }},
    {Opcode::Min, [](const Step& s) { return s.applied(rules::smaller); }},
    {Opcode::Max, [](const Step& s) { return s.applied(rules::larger); }},
    {Opcode::And, low_bits},
    {Opcode::Shr, shifted_right},
    {Opcode::Select, chosen_number},
    {Opcode::Cast, converted},
});

// ---- conditions ---------------------------------------------------------------------------------
Condition compared(const Step& s) {
  const Number a = s.number(0), b = s.number(1);
  if (!a || !b) return std::nullopt;
  if (s.node.pred == MaskPred::Lt) return rules::less(a->bounds, b->bounds);
  if (s.node.pred == MaskPred::Le) return rules::less_equal(a->bounds, b->bounds);
  const ThreeValued equal = rules::equal(a->bounds, b->bounds);
  return s.node.pred == MaskPred::Eq ? equal : rules::negated(equal);
}

Condition negated(const Step& s) {
  return s.truth(0) ? Condition(rules::negated(*s.truth(0))) : std::nullopt;
}

Condition chosen_condition(const Step& s) {
  const Condition &c = s.truth(0), &a = s.truth(1), &b = s.truth(2);
  return c && a && b ? Condition(rules::chosen_condition(*c, *a, *b)) : std::nullopt;
}

using ConditionFn = Condition (*)(const Step&);
constexpr auto kConditions = ir::op_table<ConditionFn>({
    {Opcode::Cmp, compared},
    {Opcode::Not, negated},
    {Opcode::And, [](const Step& s) { return s.joined(rules::both); }},
    {Opcode::Or, [](const Step& s) { return s.joined(rules::either); }},
    {Opcode::Xor, [](const Step& s) { return s.joined(rules::exactly_one); }},
    {Opcode::Select, chosen_condition},
});

ThreeValued unknown() { return {Tile(false), Tile(true)}; }

AbstractValue result(const Step& s) {
  const auto op = static_cast<std::size_t>(s.node.opcode);
  const bool is_op = s.node.kind == MaskNode::Kind::Op;
  if (is_bool(s.node.dtype)) {
    const Condition t = is_op && kConditions[op] ? kConditions[op](s) : std::nullopt;
    return {std::nullopt, t.value_or(unknown())};
  }
  return {is_op && kNumbers[op] ? kNumbers[op](s) : std::nullopt, std::nullopt};
}

}  // namespace

MaskIntervals::MaskIntervals(const ir::MaskAxisDependence& sides)
    : sides_(sides), whole_domain_(sides.expr) {
  constexpr Interval kAll = ir::kMaskPositions;
  whole_domain_.evaluate({kAll, kAll, kAll, kAll}, {});
}

bool MaskIntervals::has_no_overflow() const {
  const auto& nodes = sides_.expr.nodes;
  for (MaskNodeId id = 0; id < nodes.size(); ++id)
    if (nodes[id].kind == MaskNode::Kind::Op && whole_domain_.may_overflow(id)) return false;
  return true;
}

AbstractValue MaskIntervals::known(MaskNodeId id, const TileBounds& b, bool is_point) const {
  if (is_bool(sides_.expr[id].dtype)) return {std::nullopt, ThreeValued{b.lo != 0, b.hi != 0}};
  const Interval range = whole_domain_.value(id).range;
  if (!range.is_within(kNarrow)) return {};
  return {RecordedInterval{b, range, is_point}, std::nullopt};
}

ThreeValued MaskIntervals::run(const Leaf& leaf) const {
  const auto& expr = sides_.expr;
  std::vector<AbstractValue> known(expr.nodes.size());
  std::vector<bool> is_needed(expr.nodes.size(), false);
  is_needed[expr.root] = true;
  for (MaskNodeId id = expr.root + 1; id-- > 0;) {
    if (!is_needed[id] || !sides_.is_above[id] || expr[id].kind != MaskNode::Kind::Op) continue;
    for (std::size_t i = 0; i < expr[id].operands; ++i) is_needed[expr[id].in[i]] = true;
  }
  for (MaskNodeId id = 0; id <= expr.root; ++id) {
    if (!is_needed[id]) continue;
    known[id] = sides_.is_above[id] ? result({expr[id], known}) : leaf(id);
  }
  return known[expr.root].truth.value_or(unknown());
}

}  // namespace tegula
