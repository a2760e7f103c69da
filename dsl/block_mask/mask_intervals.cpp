#include "dsl/block_mask/mask_intervals.h"

#include <algorithm>
#include <bit>

#include "dsl/block_mask/solved_conditions.h"
#include "ir/op_table.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

using ir::Interval;
using ir::MaskNode;
using ir::MaskNodeId;
using ir::MaskPred;
using ir::Opcode;
using Number = std::optional<RecordedInterval>;

const Interval kNarrow = Interval::of(DType::i32);

Tile constant(std::int64_t v) { return full<i32>(static_cast<i32>(v)); }

/// One op: bounds of the result from those of its operands.
struct Step {
  const MaskAxisDependence& sides;
  const MaskNode& node;
  const std::vector<AbstractValue>& known;

  const AbstractValue& in(std::size_t i) const { return known[node.in[i]]; }
  const std::optional<ThreeValued>& truth(std::size_t i) const { return in(i).truth; }
  /// An operand as a number; a condition is 0 or 1.
  Number number(std::size_t i) const {
    if (const auto& t = in(i).truth)
      return RecordedInterval{cast<i32>(t->all), cast<i32>(t->any), {0, 1}, false};
    return in(i).number;
  }

  AbstractValue run() const;

  /// Bounds computed by `f` in a type in which they fit; replaced by all values of the node's type
  /// if they would wrap around in that.
  template <class F>
  Number ends(std::optional<Interval> range, F f) const;
  Number linear(const Number& a, const Number& b, std::int64_t factor) const;
  Number product(const Number& a, const Number& b) const;
  Number magnitude(const Number& a) const;
  Number quotient(const Number& a, const Number& b) const;
  Number remainder(const Number& a, const Number& b) const;
  Number low_bits(const Number& a, const Number& b) const;
  Number shifted_right(const Number& a, const Number& b) const;
};

ThreeValued unknown() { return {Tile(false), Tile(true)}; }

template <class F>
Number Step::ends(std::optional<Interval> range, F f) const {
  const Interval all = Interval::of(node.dtype);
  if (range && range->is_within(kNarrow) && range->is_within(all)) {
    const auto [lo, hi] = f([](const Tile& t) { return t; });
    return RecordedInterval{lo, hi, *range, false};
  }
  // Intervals of i32 added, or multiplied once, fit 64 bits.
  if (!range || node.dtype != DType::i32) return std::nullopt;
  const auto [lo, hi] = f([](const Tile& t) { return cast<i64>(t); });
  const Tile inside = lo >= Tile(kNarrow.lo) && hi <= Tile(kNarrow.hi);
  return RecordedInterval{where(inside, cast<i32>(lo), constant(kNarrow.lo)),
                          where(inside, cast<i32>(hi), constant(kNarrow.hi)), kNarrow, false};
}

Number Step::linear(const Number& a, const Number& b, std::int64_t factor) const {
  if (!a || !b) return std::nullopt;
  const auto term = scale(b->range, factor);
  return ends(term ? add(a->range, *term) : std::nullopt, [&](auto wide) {
    if (factor > 0) return std::pair(wide(a->lo) + wide(b->lo), wide(a->hi) + wide(b->hi));
    return std::pair(wide(a->lo) - wide(b->hi), wide(a->hi) - wide(b->lo));
  });
}

Number Step::product(const Number& a, const Number& b) const {
  if (!a || !b) return std::nullopt;
  return ends(mul(a->range, b->range), [&](auto wide) {
    const Tile x = wide(a->lo) * wide(b->lo), y = wide(a->lo) * wide(b->hi),
               z = wide(a->hi) * wide(b->lo), w = wide(a->hi) * wide(b->hi);
    return std::pair(min(min(x, y), min(z, w)), max(max(x, y), max(z, w)));
  });
}

Number Step::magnitude(const Number& a) const {
  if (!a) return std::nullopt;
  const auto negated = scale(a->range, -1);
  if (!negated) return std::nullopt;
  const Interval range{std::max({a->range.lo, negated->lo, std::int64_t{0}}),
                       std::max(a->range.hi, negated->hi)};
  return ends(range, [&](auto wide) {
    const Tile lo = wide(a->lo), hi = wide(a->hi);
    return std::pair(max(0, max(lo, -hi)), max(-lo, hi));
  });
}

/// Truncated, by a positive number that is the same for the whole block.
Number Step::quotient(const Number& a, const Number& b) const {
  if (!a || !b || !b->is_point) return std::nullopt;
  const Tile by = max(b->lo, constant(1)), valid = b->lo > 0;
  const Interval range = b->range.lo > 0 ? hull(a->range, Interval::point(0)) : kNarrow;
  if (!range.is_within(Interval::of(node.dtype))) return std::nullopt;
  return RecordedInterval{where(valid, a->lo / by, constant(range.lo)),
                          where(valid, a->hi / by, constant(range.hi)), range, false};
}

Number Step::remainder(const Number& a, const Number& b) const {
  if (!a || !b || !b->is_point) return std::nullopt;
  const Tile by = max(b->lo, constant(1)), valid = b->lo > 0;
  const Tile first = a->lo / by;
  const Tile is_straight = first == a->hi / by;
  const Tile zero = constant(0), most = by - 1;
  const Tile lo = where(is_straight, a->lo - first * by, max(min(a->lo, zero), -most)),
             hi = where(is_straight, a->hi - first * by, min(max(a->hi, zero), most));
  const Interval range = b->range.lo > 0 ? hull(a->range, Interval::point(0)) : kNarrow;
  if (!range.is_within(Interval::of(node.dtype))) return std::nullopt;
  return RecordedInterval{where(valid, lo, constant(range.lo)),
                          where(valid, hi, constant(range.hi)), range, false};
}

/// `x & (2^k - 1)`.
Number Step::low_bits(const Number& a, const Number& b) const {
  if (!a || !b || !b->is_point || !b->range.is_point()) return std::nullopt;
  const std::int64_t c = b->range.lo;
  if (c < 0 || ((c + 1) & c) != 0) return std::nullopt;
  const auto shift = std::popcount(static_cast<std::uint64_t>(c));
  if (shift > 30) return std::nullopt;
  const Tile is_straight = (a->lo >> constant(shift)) == (a->hi >> constant(shift));
  return RecordedInterval{where(is_straight, a->lo & constant(c), constant(0)),
                          where(is_straight, a->hi & constant(c), constant(c)),
                          {0, c},
                          false};
}

/// By a constant.
Number Step::shifted_right(const Number& a, const Number& b) const {
  if (!a || !b || !b->is_point || !b->range.is_point()) return std::nullopt;
  const std::int64_t c = b->range.lo;
  if (c < 0 || c > 31) return std::nullopt;
  return RecordedInterval{
      a->lo >> constant(c), a->hi >> constant(c), {a->range.lo >> c, a->range.hi >> c}, false};
}

// ---- numbers ------------------------------------------------------------------------------------
template <class Pick>
Number extremum(const Step& s, Pick pick) {
  const Number a = s.number(0), b = s.number(1);
  if (!a || !b) return std::nullopt;
  return RecordedInterval{pick(a->lo, b->lo), pick(a->hi, b->hi), hull(a->range, b->range), false};
}

Number negation(const Step& s) {
  return s.linear(RecordedInterval{constant(0), constant(0), {0, 0}, true}, s.number(0), -1);
}

Number chosen_number(const Step& s) {
  const std::optional<ThreeValued>& c = s.truth(0);
  if (!c) return std::nullopt;
  const Number a = s.number(1), b = s.number(2);
  if (!a || !b) return std::nullopt;
  const auto pick = [&](const Tile& x, const Tile& y, const Tile& either) {
    return where(c->all, x, where(c->any, either, y));
  };
  return RecordedInterval{pick(a->lo, b->lo, min(a->lo, b->lo)),
                          pick(a->hi, b->hi, max(a->hi, b->hi)), hull(a->range, b->range), false};
}

Number converted(const Step& s) {
  const Number a = s.number(0);
  return a && a->range.is_within(Interval::of(s.node.dtype)) ? a : std::nullopt;
}

using NumberFn = Number (*)(const Step&);
constexpr auto kNumbers = ir::op_table<NumberFn>({
    {Opcode::Add, [](const Step& s) { return s.linear(s.number(0), s.number(1), 1); }},
    {Opcode::Sub, [](const Step& s) { return s.linear(s.number(0), s.number(1), -1); }},
    {Opcode::Neg, negation},
    {Opcode::Mul, [](const Step& s) { return s.product(s.number(0), s.number(1)); }},
    {Opcode::Div, [](const Step& s) { return s.quotient(s.number(0), s.number(1)); }},
    {Opcode::Rem, [](const Step& s) { return s.remainder(s.number(0), s.number(1)); }},
    {Opcode::Abs, [](const Step& s) { return s.magnitude(s.number(0)); }},
    {Opcode::Min,
     [](const Step& s) {
       return extremum(s, [](const Tile& x, const Tile& y) { return min(x, y); });
     }},
    {Opcode::Max,
     [](const Step& s) {
       return extremum(s, [](const Tile& x, const Tile& y) { return max(x, y); });
     }},
    {Opcode::And, [](const Step& s) { return s.low_bits(s.number(0), s.number(1)); }},
    {Opcode::Shr, [](const Step& s) { return s.shifted_right(s.number(0), s.number(1)); }},
    {Opcode::Select, chosen_number},
    {Opcode::Cast, converted},
});

// ---- conditions ---------------------------------------------------------------------------------
using MaybeTruth = std::optional<ThreeValued>;

MaybeTruth compared(const Step& s) {
  const Number a = s.number(0), b = s.number(1);
  if (!a || !b) return std::nullopt;
  if (s.node.pred == MaskPred::Lt) return ThreeValued{a->hi < b->lo, a->lo < b->hi};
  if (s.node.pred == MaskPred::Le) return ThreeValued{a->hi <= b->lo, a->lo <= b->hi};
  const Tile surely = a->lo == b->hi && a->hi == b->lo, possible = a->lo <= b->hi && b->lo <= a->hi;
  return s.node.pred == MaskPred::Eq ? ThreeValued{surely, possible}
                                     : ThreeValued{!possible, !surely};
}

MaybeTruth negated(const Step& s) {
  const MaybeTruth& a = s.truth(0);
  return a ? MaybeTruth(ThreeValued{!a->any, !a->all}) : std::nullopt;
}

template <class Join>
MaybeTruth joined(const Step& s, Join join) {
  const MaybeTruth &a = s.truth(0), &b = s.truth(1);
  return a && b ? MaybeTruth(join(*a, *b)) : std::nullopt;
}

MaybeTruth chosen_truth(const Step& s) {
  const MaybeTruth &a = s.truth(0), &b = s.truth(1), &c = s.truth(2);
  if (!a || !b || !c) return std::nullopt;
  const auto pick = [&](const Tile& x, const Tile& y, const Tile& either) {
    return (a->all && x) || (!a->any && y) || (a->any && !a->all && either);
  };
  return ThreeValued{pick(b->all, c->all, b->all && c->all),
                     pick(b->any, c->any, b->any || c->any)};
}

using TruthFn = MaybeTruth (*)(const Step&);
constexpr auto kTruths = ir::op_table<TruthFn>({
    {Opcode::Cmp, compared},
    {Opcode::Not, negated},
    {Opcode::And,
     [](const Step& s) {
       return joined(s, [](const ThreeValued& a, const ThreeValued& b) {
         return ThreeValued{a.all && b.all, a.any && b.any};
       });
     }},
    {Opcode::Or,
     [](const Step& s) {
       return joined(s, [](const ThreeValued& a, const ThreeValued& b) {
         return ThreeValued{a.all || b.all, a.any || b.any};
       });
     }},
    {Opcode::Xor,
     [](const Step& s) {
       return joined(s, [](const ThreeValued& a, const ThreeValued& b) {
         return ThreeValued{(a.all && !b.any) || (b.all && !a.any),
                            (a.any && !b.all) || (b.any && !a.all)};
       });
     }},
    {Opcode::Select, chosen_truth},
});

AbstractValue Step::run() const {
  const auto op = static_cast<std::size_t>(node.opcode);
  const bool is_op = node.kind == MaskNode::Kind::Op;
  if (is_bool(node.dtype)) {
    const MaybeTruth t = is_op && kTruths[op] ? kTruths[op](*this) : std::nullopt;
    return {std::nullopt, t.value_or(unknown())};
  }
  return {is_op && kNumbers[op] ? kNumbers[op](*this) : std::nullopt, std::nullopt};
}

}  // namespace

MaskIntervals::MaskIntervals(const MaskAxisDependence& sides)
    : sides_(sides), whole_domain_(sides.source.expr) {
  whole_domain_.evaluate({kMaskPositions, kMaskPositions, kMaskPositions, kMaskPositions}, {});
}

bool MaskIntervals::fits(MaskNodeId id) const {
  return whole_domain_.value(id).range.is_within(kNarrow);
}

bool MaskIntervals::has_no_overflow() const {
  const auto& nodes = sides_.source.expr.nodes;
  for (MaskNodeId id = 0; id < nodes.size(); ++id)
    if (nodes[id].kind == MaskNode::Kind::Op && whole_domain_.may_overflow(id)) return false;
  return true;
}

AbstractValue MaskIntervals::known(MaskNodeId id, const Tile& lo, const Tile& hi,
                                   bool is_point) const {
  if (is_bool(sides_.source.expr[id].dtype)) return {std::nullopt, ThreeValued{lo != 0, hi != 0}};
  if (!fits(id)) return {};
  return {RecordedInterval{lo, hi, whole_domain_.value(id).range, is_point}, std::nullopt};
}

ThreeValued MaskIntervals::run(const Leaf& leaf) {
  const auto& expr = sides_.source.expr;
  std::vector<AbstractValue> known(expr.nodes.size());
  std::vector<bool> is_needed(expr.nodes.size(), false);
  is_needed[expr.root] = true;
  for (MaskNodeId id = expr.root + 1; id-- > 0;) {
    if (!is_needed[id] || !sides_.is_above[id] || expr[id].kind != MaskNode::Kind::Op) continue;
    for (std::size_t i = 0; i < expr[id].operands; ++i) is_needed[expr[id].in[i]] = true;
  }
  for (MaskNodeId id = 0; id <= expr.root; ++id) {
    if (!is_needed[id]) continue;
    known[id] = sides_.is_above[id] ? Step{sides_, expr[id], known}.run() : leaf(id);
  }
  return known[expr.root].truth.value_or(unknown());
}

}  // namespace tegula
