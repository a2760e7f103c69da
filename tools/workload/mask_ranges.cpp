// Evaluation of a mask's closed form over a tile of queries.
#include "tools/workload/mask_ranges.h"

#include <algorithm>
#include <limits>

#include "ir/analysis/mask/solved_conditions.h"
#include "tegula/int_math.h"

namespace tegula {
using ir::BlockCoverage;
using ir::Interval;
using ir::kMinusInfinity;
using ir::kPlusInfinity;
using ir::MaskBlocks;
using ir::MaskCondition;
using ir::MaskFormula;
using ir::MaskNode;
using ir::MaskNodeId;
using ir::MaskParams;
using ir::MaskStep;
using ir::MaskTable;
using ir::Opcode;

namespace {

using Wide = __int128;
constexpr Wide kInfinity = Wide{1} << 120;

/// Bounds that may be infinite; empty if lo > hi.
struct ConditionBounds {
  Wide lo, hi;
};

bool is_finite(Wide v) { return v > -kInfinity && v < kInfinity; }

/// Clamping to 2^64 loses no 64-bit number and prevents overflow in the next operation.
ConditionBounds clamped(ConditionBounds b) {
  constexpr Wide kMost = Wide{1} << 64;
  const auto clamp = [&](Wide v) { return is_finite(v) ? std::clamp(v, -kMost, kMost) : v; };
  return {clamp(b.lo), clamp(b.hi)};
}

/// Returns bounds of x such that factor * x + rest is in `target`: for some rest, or for every one.
ConditionBounds solve_linear(ConditionBounds target, std::int64_t factor, Interval rest,
                             bool for_every) {
  ConditionBounds t = target;
  if (is_finite(t.lo)) t.lo -= for_every ? rest.lo : rest.hi;
  if (is_finite(t.hi)) t.hi -= for_every ? rest.hi : rest.lo;
  if (factor < 0) t = {-t.hi, -t.lo};
  const Wide size = factor < 0 ? -Wide{factor} : Wide{factor};
  if (is_finite(t.lo)) t.lo = ceil_div(t.lo, size);
  if (is_finite(t.hi)) t.hi = floor_div(t.hi, size);
  return clamped(t);
}

/// Returns bounds of x such that x / size, truncated, or x >> n with size 2^n, is in `target`.
ConditionBounds solve_quotient(ConditionBounds target, std::int64_t size, bool truncated) {
  ConditionBounds x = target;
  if (is_finite(x.lo)) x.lo = truncated && x.lo <= 0 ? (x.lo - 1) * size + 1 : x.lo * size;
  if (is_finite(x.hi)) x.hi = truncated && x.hi < 0 ? x.hi * size : x.hi * size + (size - 1);
  return clamped(x);
}

/// Returns bounds of x such that entry x of an ascending table is in `target`.
ConditionBounds solve_entry(ConditionBounds target, const MaskTable& table) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  ConditionBounds x{0, table.size() - 1};
  if (target.lo > kMost || target.hi < kLeast) return {1, 0};
  if (target.lo > kLeast) x.lo = table.first_at_least(static_cast<std::int64_t>(target.lo));
  if (target.hi < kMost) x.hi = table.first_at_least(static_cast<std::int64_t>(target.hi) + 1) - 1;
  return x;
}

}  // namespace

// ---- sets ---------------------------------------------------------------------------------------
void IntervalSet::add(Interval i) {
  if (i.lo > i.hi) return;
  if (!parts_.empty() && i.lo <= parts_.back().hi + 1)
    parts_.back().hi = std::max(parts_.back().hi, i.hi);
  else
    parts_.push_back(i);
}
bool IntervalSet::contains(Interval i) const {
  return std::ranges::any_of(parts_, [&](Interval p) { return i.is_within(p); });
}
bool IntervalSet::meets(Interval i) const {
  return std::ranges::any_of(parts_, [&](Interval p) { return p.lo <= i.hi && i.lo <= p.hi; });
}
IntervalSet operator&(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet both;
  for (auto x = a.parts_.begin(), y = b.parts_.begin();
       x != a.parts_.end() && y != b.parts_.end();) {
    both.add({std::max(x->lo, y->lo), std::min(x->hi, y->hi)});
    x->hi < y->hi ? void(++x) : void(++y);
  }
  return both;
}
IntervalSet operator|(const IntervalSet& a, const IntervalSet& b) {
  std::vector<Interval> all(a.parts_);
  all.insert(all.end(), b.parts_.begin(), b.parts_.end());
  std::ranges::sort(all, {}, &Interval::lo);
  IntervalSet either;
  for (const Interval i : all) either.add(i);
  return either;
}

// ---- covers -------------------------------------------------------------------------------------
BlockCoverage KvVisibility::of(std::int64_t kv0, std::int64_t kv1) const {
  const Interval block{kv0, kv1 - 1};
  if (kv0 >= kv1 || !visible.meets(block)) return BlockCoverage::Empty;
  return full.contains(block) ? BlockCoverage::Full : BlockCoverage::Partial;
}

struct MaskRanges::Covers {
  const MaskRanges& of;

  KvVisibility leaf(const MaskFormula& f) const {
    if (f.kind == MaskFormula::Kind::Condition) return of.of(of.form_.conditions[f.index]);
    const Interval t = of.blocks_.value(f.index).range;
    return of.decided(f.negated ? Interval{1 - t.hi, 1 - t.lo} : t);
  }
  KvVisibility constant(bool all) const { return of.decided(Interval::point(all)); }
  static KvVisibility both(const KvVisibility& a, const KvVisibility& b) {
    return {a.visible & b.visible, a.full & b.full};
  }
  static KvVisibility either(const KvVisibility& a, const KvVisibility& b) {
    return {a.visible | b.visible, a.full | b.full};
  }
};

KvVisibility MaskRanges::cover(const Tile& tile, const MaskParams& params) {
  if (tile.q0 >= tile.q1 || tile.seqlen_kv <= 0) return {};
  keys_ = {0, tile.seqlen_kv - 1};
  blocks_.evaluate(
      {Interval::point(tile.batch), Interval::point(tile.head), {tile.q0, tile.q1 - 1}, keys_},
      params);
  params_ = params;
  return fold(form_.formula, Covers{*this});
}

KvVisibility MaskRanges::decided(Interval truth) const {
  const IntervalSet all(keys_);
  if (truth.hi == 0) return {};
  return {all, truth.lo == 1 ? all : IntervalSet()};
}

KvVisibility MaskRanges::of(const MaskCondition& c) const {
  const bool wraps =
      std::ranges::any_of(c.exact, [&](MaskNodeId id) { return blocks_.may_overflow(id); });
  if (wraps) return decided({0, 1});
  if (c.steps.empty()) return decided(truth_of(c, blocks_));
  ConditionBounds some{c.target.lo == kMinusInfinity ? -kInfinity : Wide{c.target.lo},
                       c.target.hi == kPlusInfinity ? kInfinity : Wide{c.target.hi}};
  ConditionBounds every = some;
  for (const MaskStep& step : c.steps) {
    const auto rest = blocks_.range_of(step.rest);
    if (!rest) return decided({0, 1});
    some = solve_linear(some, step.factor, *rest, false);
    every = solve_linear(every, step.factor, *rest, true);
    const MaskNode& n = form_.expr[step.symbol];
    if (n.kind == MaskNode::Kind::Key) break;
    if (n.kind == MaskNode::Kind::Table) {
      const auto slot = static_cast<std::size_t>(n.value);
      if (slot >= params_.tables.size()) return decided({0, 1});
      const MaskTable& table = params_.tables[slot];
      if (!table.is_ascending() || !table.has(blocks_.value(n.in[0]).range)) return decided({0, 1});
      some = solve_entry(some, table);
      every = solve_entry(every, table);
      continue;
    }
    const Interval by = blocks_.value(n.in[1]).range;
    const bool is_shift = n.opcode == Opcode::Shr;
    if (!by.is_point() || by.lo < (is_shift ? 0 : 1) || (is_shift && by.lo > 30))
      return decided({0, 1});
    const std::int64_t size = is_shift ? std::int64_t{1} << by.lo : by.lo;
    some = solve_quotient(some, size, !is_shift);
    every = solve_quotient(every, size, !is_shift);
  }
  const auto clip = [&](ConditionBounds b) {
    const Wide lo = std::max(b.lo, Wide{keys_.lo}), hi = std::min(b.hi, Wide{keys_.hi});
    return lo <= hi ? IntervalSet({static_cast<std::int64_t>(lo), static_cast<std::int64_t>(hi)})
                    : IntervalSet();
  };
  return {clip(some), clip(every)};
}

}  // namespace tegula
