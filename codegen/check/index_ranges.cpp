#include "codegen/check/index_ranges.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "ir/op_table.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 40;
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
/// No GPU has more shared memory: addresses that may exceed it are unknown.
constexpr std::int64_t kMaxShared = std::int64_t{1} << 18;
/// Number of rounds in which a carry's range may grow: more than a ring has slots.
constexpr int kMaxCarryRounds = 20;

/// Returns the mask of all bits that may be set in an integer from 0 to `hi`.
std::int64_t bits_up_to(std::int64_t hi) {
  return hi <= 0 ? 0
                 : static_cast<std::int64_t>(
                       (std::uint64_t{1} << std::bit_width(static_cast<std::uint64_t>(hi))) - 1);
}

Range hull(const Range& a, const Range& b) {
  if (!a.is_known() || !b.is_known()) return Range::unknown();
  Range r = Range::of(std::min(a.lo, b.lo), std::max(a.hi, b.hi));
  if (r.lo >= 0) r.bits &= a.bits | b.bits;
  return r;
}

Range sum(const Range& a, const Range& b) {
  if (!a.is_known() || !b.is_known()) return Range::unknown();
  Range r = Range::of(a.lo + b.lo, a.hi + b.hi);
  if (a.lo >= 0 && b.lo >= 0 && (a.bits & b.bits) == 0) r.bits = a.bits | b.bits;
  return r;
}

Range difference(const Range& a, const Range& b) {
  if (!a.is_known() || !b.is_known()) return Range::unknown();
  return Range::of(a.lo - b.hi, a.hi - b.lo);
}

/// Returns the mask of the bits that may differ among the integers of a range.
std::int64_t varying_bits(const Range& r) { return bits_up_to(r.lo ^ r.hi) & r.bits; }

/// Returns the range of `or`, or of `xor` if `exclusive`. Bits that are 0 in both operands stay 0.
template <bool exclusive>
Range either(const Range& a, const Range& b) {
  if (!a.is_known() || !b.is_known() || a.lo < 0 || b.lo < 0) return Range::unknown();
  if ((a.bits & b.bits) == 0) return sum(a, b);
  const std::int64_t varying = varying_bits(a) | varying_bits(b);
  const std::int64_t fixed = (exclusive ? a.lo ^ b.lo : a.lo | b.lo) & ~varying;
  return {fixed, fixed | varying, (a.bits | b.bits) & (fixed | varying)};
}

Range masked(const Range& a, const Range& b) {
  const Range& mask = b.is_known() && b.is_one() ? b : a;
  const Range& other = &mask == &b ? a : b;
  if (!mask.is_known() || !mask.is_one() || mask.lo < 0) return Range::unknown();
  if (!other.is_known() || other.lo < 0) {
    Range r = Range::of(0, mask.lo);
    r.bits = mask.lo;
    return r;
  }
  const std::int64_t fixed = other.lo & ~varying_bits(other) & mask.lo;
  const std::int64_t free = varying_bits(other) & mask.lo;
  Range r = Range::of(fixed, std::min(fixed | free, other.hi));
  r.bits &= mask.lo & other.bits;
  return r;
}

bool can_shift(const Range& a, const Range& by) {
  return a.is_known() && a.lo >= 0 && by.is_one() && by.lo >= 0 && by.lo <= 31;
}
Range shifted_left(const Range& a, const Range& by) {
  return can_shift(a, by) && a.hi << by.lo < kFar
             ? Range{a.lo << by.lo, a.hi << by.lo, a.bits << by.lo}
             : Range::unknown();
}
Range shifted_right(const Range& a, const Range& by) {
  return can_shift(a, by) ? Range{a.lo >> by.lo, a.hi >> by.lo, a.bits >> by.lo} : Range::unknown();
}

Range remainder(const Range& a, const Range& by) {
  if (!by.is_known() || by.lo <= 0) return Range::unknown();
  if (a.is_known() && a.lo >= 0 && a.hi < by.lo) return a;
  const bool is_positive = a.is_known() && a.lo >= 0;
  return Range::of(is_positive ? 0 : 1 - by.hi, by.hi - 1);
}

bool are_counts(const Range& a, const Range& b) {
  return a.is_known() && b.is_known() && a.lo >= 0 && b.lo >= 0;
}
Range quotient(const Range& a, const Range& b) {
  return are_counts(a, b) && b.lo > 0 ? Range::of(a.lo / b.hi, a.hi / b.lo) : Range::unknown();
}
Range smaller(const Range& a, const Range& b) {
  return are_counts(a, b) ? Range::of(std::min(a.lo, b.lo), std::min(a.hi, b.hi))
                          : Range::unknown();
}
Range larger(const Range& a, const Range& b) {
  return are_counts(a, b) ? Range::of(std::max(a.lo, b.lo), std::max(a.hi, b.hi))
                          : Range::unknown();
}
Range product(const Range& a, const Range& b) {
  if (!are_counts(a, b) || (b.hi != 0 && a.hi > kFar / b.hi)) return Range::unknown();
  if (b.is_one() && b.lo > 0 && std::has_single_bit(static_cast<std::uint64_t>(b.lo)))
    return {a.lo * b.lo, a.hi * b.lo, a.bits * b.lo};
  return Range::of(a.lo * b.lo, a.hi * b.hi);
}

constexpr auto kOfTwo = op_table<Range (*)(const Range&, const Range&)>({
    {Opcode::Add, sum},
    {Opcode::Sub, difference},
    {Opcode::Mul, product},
    {Opcode::Div, quotient},
    {Opcode::Rem, remainder},
    {Opcode::Min, smaller},
    {Opcode::Max, larger},
    {Opcode::And, masked},
    {Opcode::Or, either<false>},
    {Opcode::Xor, either<true>},
    {Opcode::Shl, shifted_left},
    {Opcode::Shr, shifted_right},
});

}  // namespace

Range Range::of(std::int64_t lo, std::int64_t hi) {
  return {lo, hi, lo < 0 ? std::int64_t{-1} : bits_up_to(hi)};
}
Range Range::unknown() { return {-kFar, kFar, -1}; }
bool Range::is_known() const { return lo > -kFar && hi < kFar; }

IndexRanges::IndexRanges(const Kernel& simt) : k_(simt) {
  const int groups = (simt.info.threads + kWarpgroupThreads - 1) / kWarpgroupThreads;
  known_.resize(static_cast<std::size_t>(std::max(1, groups)));
  for (const Param& p : simt.params())
    if (p.attrs.s(AttrName::component) == "dim") extents_.insert(p.value);
}

Range IndexRanges::of(Value v, int warpgroup) {
  group_ = warpgroup;
  auto& known = known_[static_cast<std::size_t>(warpgroup)];
  if (known.empty()) known.resize(k_.value_count());
  trail_.clear();
  return get(v);
}

ByteRange IndexRanges::bytes_at(Value addresses, int warpgroup, std::int64_t bytes) {
  const Range r = of(addresses, warpgroup);
  return r.lo >= 0 && r.hi < kMaxShared ? ByteRange{r.lo, r.hi + bytes} : ByteRange{};
}

Range IndexRanges::get(Value v) {
  Known& known = known_[static_cast<std::size_t>(group_)][v.index];
  if (known.is_set) return known.range;
  const Range r = compute(v);
  put(v, r);
  return r;
}

void IndexRanges::put(Value v, const Range& r) {
  known_[static_cast<std::size_t>(group_)][v.index] = {r, true};
  trail_.push_back(v);
}

void IndexRanges::forget(std::size_t mark) {
  for (std::size_t i = mark; i < trail_.size(); ++i)
    known_[static_cast<std::size_t>(group_)][trail_[i].index].is_set = false;
  trail_.resize(mark);
}

Range IndexRanges::compute(Value v) {
  const Type t = k_.type(v);
  const bool is_number = (t.is_scalar() || t.is_vec()) && !t.is_pointer() && !is_float(t.dtype());
  if (!is_number) return Range::unknown();
  if (extents_.contains(v)) return Range::of(0, kMaxInt);
  if (const auto merge = merge_of(k_, v)) return of_merge(v, *merge);
  const RegionId region = k_[v].region;
  const OpId op = region ? k_[region].owner : k_[v].def;
  if (!op) return Range::unknown();
  const OpData& d = k_[op];
  if (d.regions.empty()) return of_op(d);
  if (d.opcode != Opcode::For) return Range::unknown();
  const Range first = operand(d, 0), end = operand(d, 1);  // v is the induction variable
  if (!first.is_known() || !end.is_known()) return Range::unknown();
  return Range::of(first.lo, std::max(first.lo, end.hi - 1));
}

/// Returns the range of a loop's or an `if`'s merged value. The arguments and results of a loop all
/// have the range of the body's argument.
Range IndexRanges::of_merge(Value v, const Merge& merge) {
  if (!is_loop(k_[merge.op])) {
    const std::vector<Value> yielded = incoming_values(k_, merge);
    Range all = get(yielded[0]);
    for (Value x : std::span(yielded).subspan(1)) all = hull(all, get(x));
    return all;
  }
  const Value carry = body_carries(k_, merge.op)[merge.index];
  if (v != carry) return get(carry);
  return carried(v, loop_inits(k_[merge.op])[merge.index], loop_nexts(k_, merge.op)[merge.index]);
}

Range IndexRanges::carried(Value arg, Value first, Value next) {
  Range r = get(first);
  for (int round = 0; round < kMaxCarryRounds && r.is_known(); ++round) {
    const std::size_t mark = trail_.size();
    put(arg, r);
    const Range grown = hull(r, get(next));
    if (grown == r) return r;
    forget(mark);
    r = grown;
  }
  return Range::unknown();
}

Range IndexRanges::of_thread(const OpData& d) {
  const std::int64_t first = std::int64_t{group_} * kWarpgroupThreads;
  const std::int64_t last =
      std::min<std::int64_t>(first + kWarpgroupThreads, std::max(1, k_.info.threads)) - 1;
  if (d.opcode == Opcode::Tid) return Range::of(first, last);
  if (d.opcode == Opcode::WarpId) return Range::of(first / 32, last / 32);
  return Range::of(0, 31);
}

Range IndexRanges::of_const(const OpData& d) {
  const AttrValue* value = d.attrs.find(AttrName::value);
  const auto* number = value ? std::get_if<std::int64_t>(value) : nullptr;
  return number ? Range::exactly(*number) : Range::unknown();
}

/// Returns the range of an op that depends only on the CTA. Its shared memory begins at 0.
Range IndexRanges::of_cta(const OpData& d) {
  if (d.opcode == Opcode::SmemBase) return Range::exactly(0);
  if (d.opcode == Opcode::CtaRank) return Range::of(0, k_.info.cluster - 1);
  return Range::of(d.opcode == Opcode::NumCtas ? 1 : 0, kMaxInt);
}

Range IndexRanges::of_first(const OpData& d) { return operand(d, 0); }
Range IndexRanges::of_any(const OpData& d) {
  Range r = operand(d, 0);
  for (std::size_t i = 1; i < d.operands.size(); ++i) r = hull(r, operand(d, i));
  return r;
}

Range IndexRanges::of_op(const OpData& d) {
  using enum Opcode;
  if (const auto rule = kOfTwo[static_cast<std::size_t>(d.opcode)])
    return rule(operand(d, 0), operand(d, 1));
  using Self = IndexRanges;
  static constexpr auto kRules = op_table<Range (Self::*)(const OpData&)>({
      {Const, &Self::of_const},
      {Tid, &Self::of_thread},
      {WarpId, &Self::of_thread},
      {LaneId, &Self::of_thread},
      {SmemBase, &Self::of_cta},
      {CtaId, &Self::of_cta},
      {NumCtas, &Self::of_cta},
      {CtaRank, &Self::of_cta},
      {Cast, &Self::of_first},
      {Bitcast, &Self::of_first},
      {MapShared, &Self::of_first},
      {SmemDesc, &Self::of_first},
      {Regs, &Self::of_any},
      {Concat, &Self::of_any},
      {Select, &Self::of_select},
      {Cmp, &Self::of_cmp},
  });
  const auto rule = kRules[static_cast<std::size_t>(d.opcode)];
  return rule ? (this->*rule)(d) : Range::unknown();
}

Range IndexRanges::of_cmp(const OpData& d) {
  const Range a = operand(d, 0), b = operand(d, 1), either_way = Range::of(0, 1);
  if (!a.is_known() || !b.is_known()) return either_way;
  const std::string_view pred = d.attrs.s(AttrName::pred);
  const bool is_disjoint = a.hi < b.lo || b.hi < a.lo, is_equal = a.is_one() && a == b;
  if (pred == "eq" && (is_disjoint || is_equal)) return Range::exactly(is_equal ? 1 : 0);
  if (pred == "ne" && (is_disjoint || is_equal)) return Range::exactly(is_equal ? 0 : 1);
  if (pred == "lt" && a.hi < b.lo) return Range::exactly(1);
  if (pred == "lt" && a.lo >= b.hi) return Range::exactly(0);
  return either_way;
}

/// Returns the range of `v` under the assumption that `assumed` is in `range`. Supports `assumed`
/// itself, and sums and differences with `assumed` as the first operand.
Range IndexRanges::under(Value v, Value assumed, const Range& range) {
  if (v == assumed) return range;
  const OpId def = k_[v].def;
  if (!def || k_[def].operands.size() != 2 || k_[def].operands[0] != assumed) return get(v);
  const Range other = get(k_[def].operands[1]);
  if (k_[def].opcode == Opcode::Add) return sum(range, other);
  return k_[def].opcode == Opcode::Sub ? difference(range, other) : get(v);
}

/// Returns the range of a select. If the condition compares a value with a constant, it narrows
/// that value's range on each side, as needed for ring positions that wrap around.
Range IndexRanges::of_select(const OpData& d) {
  const Range condition = get(d.operands[0]);
  if (condition.is_one()) return get(d.operands[condition.lo != 0 ? 1 : 2]);
  const Range whole = hull(get(d.operands[1]), get(d.operands[2]));
  const OpId def = k_[d.operands[0]].def;
  if (!def || k_[def].opcode != Opcode::Cmp) return whole;
  const Value x = k_[def].operands[0];
  const Range range = get(x), limit = get(k_[def].operands[1]);
  if (!range.is_known() || !limit.is_known() || !limit.is_one()) return whole;
  const std::string_view pred = k_[def].attrs.s(AttrName::pred);
  Range yes = range, no = range;
  if (pred == "eq") {
    yes = limit;
    no = Range::of(range.lo == limit.lo ? range.lo + 1 : range.lo,
                   range.hi == limit.lo ? range.hi - 1 : range.hi);
  } else if (pred == "lt") {
    yes = Range::of(range.lo, std::min(range.hi, limit.lo - 1));
    no = Range::of(std::max(range.lo, limit.lo), range.hi);
  } else if (pred == "ge") {
    yes = Range::of(std::max(range.lo, limit.lo), range.hi);
    no = Range::of(range.lo, std::min(range.hi, limit.lo - 1));
  } else {
    return whole;
  }
  if (yes.lo > yes.hi) return under(d.operands[2], x, no);
  if (no.lo > no.hi) return under(d.operands[1], x, yes);
  return hull(under(d.operands[1], x, yes), under(d.operands[2], x, no));
}

}  // namespace tegula::codegen
