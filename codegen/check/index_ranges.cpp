#include "codegen/check/index_ranges.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 40;
constexpr std::int64_t kMostInt = std::numeric_limits<std::int32_t>::max();
/// No GPU has more shared memory: addresses that may lie behind it are not known.
constexpr std::int64_t kMostShared = std::int64_t{1} << 18;
/// Rounds in which a carry may grow: more than a ring has slots.
constexpr int kMostRounds = 20;

/// All bits that a number up to `hi` can have.
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

/// Bits that are not the same in all numbers from `lo` to `hi`: those above are.
std::int64_t varying_bits(const Range& r) { return bits_up_to(r.lo ^ r.hi) & r.bits; }

/// Of bits, of which those that neither can have are 0.
Range either(const Range& a, const Range& b, bool exclusive) {
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

Range shifted(const Range& a, const Range& by, bool left) {
  if (!a.is_known() || a.lo < 0 || !by.is_one() || by.lo < 0 || by.lo > 31) return Range::unknown();
  if (left)
    return a.hi << by.lo < kFar ? Range{a.lo << by.lo, a.hi << by.lo, a.bits << by.lo}
                                : Range::unknown();
  return {a.lo >> by.lo, a.hi >> by.lo, a.bits >> by.lo};
}

Range remainder(const Range& a, const Range& by) {
  if (!by.is_known() || by.lo <= 0) return Range::unknown();
  if (a.is_known() && a.lo >= 0 && a.hi < by.lo) return a;
  const bool is_positive = a.is_known() && a.lo >= 0;
  return Range::of(is_positive ? 0 : 1 - by.hi, by.hi - 1);
}

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
    if (p.attrs.s(AttrName::part) == "dim") extents_.insert(p.value);
}

Range IndexRanges::of(Value v, int warpgroup) {
  group_ = warpgroup;
  auto& known = known_[static_cast<std::size_t>(warpgroup)];
  if (known.empty()) known.resize(k_.value_count());
  trail_.clear();
  return get(v);
}

Span IndexRanges::bytes_at(Value addresses, int warpgroup, std::int64_t bytes) {
  const Range r = of(addresses, warpgroup);
  return r.lo >= 0 && r.hi < kMostShared ? Span{r.lo, r.hi + bytes} : Span{};
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
  if (extents_.contains(v)) return Range::of(0, kMostInt);
  if (k_[v].region) return of_argument(v);
  if (!k_[v].def) return Range::unknown();
  const OpData& d = k_[k_[v].def];
  return d.regions.empty() ? of_op(d) : of_result(v, d);
}

/// What a loop carries, or its number.
Range IndexRanges::of_argument(Value v) {
  const RegionId region = k_[v].region;
  const OpId owner = k_[region].owner;
  if (!owner) return Range::unknown();
  const OpData& d = k_[owner];
  const std::size_t position = k_[v].position;
  if (d.opcode == Opcode::For && position == 0) {
    const Range first = operand(d, 0), end = operand(d, 1);
    if (!first.is_known() || !end.is_known()) return Range::unknown();
    return Range::of(first.lo, std::max(first.lo, end.hi - 1));
  }
  const bool is_while = d.opcode == Opcode::While;
  if (d.opcode != Opcode::For && !is_while) return Range::unknown();
  // Both regions of a while have the same arguments.
  if (is_while && region != d.regions[1]) return get(k_[d.regions[1]].args[position]);
  const std::size_t carry = is_while ? position : position - 1;
  const OpId yield = k_.terminator(d.regions.back());
  if (!yield || carry >= k_[yield].operands.size()) return Range::unknown();
  return carried(v, d.operands[is_while ? carry : 3 + carry], k_[yield].operands[carry]);
}

Range IndexRanges::carried(Value arg, Value first, Value next) {
  Range r = get(first);
  for (int round = 0; round < kMostRounds && r.is_known(); ++round) {
    const std::size_t mark = trail_.size();
    put(arg, r);
    const Range grown = hull(r, get(next));
    if (grown == r) return r;
    forget(mark);
    r = grown;
  }
  return Range::unknown();
}

Range IndexRanges::of_result(Value v, const OpData& d) {
  const std::size_t position = k_[v].position;
  if (d.opcode == Opcode::For) return get(k_[d.regions[0]].args[1 + position]);
  if (d.opcode == Opcode::While) return get(k_[d.regions[1]].args[position]);
  if (d.opcode != Opcode::If) return Range::unknown();
  std::optional<Range> all;
  for (RegionId r : d.regions) {
    const OpId yield = k_.terminator(r);
    if (!yield) return Range::unknown();
    const Range one = get(k_[yield].operands[position]);
    all = all ? hull(*all, one) : one;
  }
  return all.value_or(Range::unknown());
}

Range IndexRanges::of_thread(const OpData& d) const {
  const std::int64_t first = std::int64_t{group_} * kWarpgroupThreads;
  const std::int64_t last =
      std::min<std::int64_t>(first + kWarpgroupThreads, std::max(1, k_.info.threads)) - 1;
  if (d.opcode == Opcode::Tid) return Range::of(first, last);
  if (d.opcode == Opcode::WarpId) return Range::of(first / 32, last / 32);
  return Range::of(0, 31);
}

Range IndexRanges::of_op(const OpData& d) {
  switch (d.opcode) {
    case Opcode::Const: {
      const AttrValue* value = d.attrs.find(AttrName::value);
      const auto* number = value ? std::get_if<std::int64_t>(value) : nullptr;
      return number ? Range::exactly(*number) : Range::unknown();
    }
    case Opcode::Tid:
    case Opcode::WarpId:
    case Opcode::LaneId:
      return of_thread(d);
    case Opcode::SmemBase:
      return Range::exactly(0);
    case Opcode::CtaId:
      return Range::of(0, kMostInt);
    case Opcode::NumCtas:
      return Range::of(1, kMostInt);
    case Opcode::CtaRank:
      return Range::of(0, k_.info.cluster - 1);
    case Opcode::Cast:
    case Opcode::Bitcast:
    case Opcode::MapShared:
    case Opcode::SmemDesc:
    case Opcode::Regs:
    case Opcode::Concat: {
      Range r = operand(d, 0);
      for (std::size_t i = 1; i < d.operands.size() && d.opcode != Opcode::MapShared; ++i)
        r = hull(r, operand(d, i));
      return r;
    }
    case Opcode::Add:
      return sum(operand(d, 0), operand(d, 1));
    case Opcode::Sub:
      return difference(operand(d, 0), operand(d, 1));
    case Opcode::Or:
    case Opcode::Xor:
      return either(operand(d, 0), operand(d, 1), d.opcode == Opcode::Xor);
    case Opcode::And:
      return masked(operand(d, 0), operand(d, 1));
    case Opcode::Shl:
      return shifted(operand(d, 0), operand(d, 1), true);
    case Opcode::Shr:
      return shifted(operand(d, 0), operand(d, 1), false);
    case Opcode::Select:
      return of_select(d);
    case Opcode::Cmp:
      return of_cmp(d);
    default:
      return of_product(d);
  }
}

Range IndexRanges::of_product(const OpData& d) {
  const bool is_known_op = d.opcode == Opcode::Mul || d.opcode == Opcode::Rem ||
                           d.opcode == Opcode::Div || d.opcode == Opcode::Min ||
                           d.opcode == Opcode::Max;
  if (!is_known_op) return Range::unknown();
  const Range a = operand(d, 0), b = operand(d, 1);
  if (d.opcode == Opcode::Rem) return remainder(a, b);
  if (!a.is_known() || !b.is_known() || a.lo < 0 || b.lo < 0) return Range::unknown();
  switch (d.opcode) {
    case Opcode::Min:
      return Range::of(std::min(a.lo, b.lo), std::min(a.hi, b.hi));
    case Opcode::Max:
      return Range::of(std::max(a.lo, b.lo), std::max(a.hi, b.hi));
    case Opcode::Div:
      return b.lo > 0 ? Range::of(a.lo / b.hi, a.hi / b.lo) : Range::unknown();
    default:
      break;
  }
  if (b.hi != 0 && a.hi > kFar / b.hi) return Range::unknown();
  if (b.is_one() && b.lo > 0 && std::has_single_bit(static_cast<std::uint64_t>(b.lo)))
    return {a.lo * b.lo, a.hi * b.lo, a.bits * b.lo};
  return Range::of(a.lo * b.lo, a.hi * b.hi);
}

Range IndexRanges::of_cmp(const OpData& d) {
  const Range a = operand(d, 0), b = operand(d, 1), either_way = Range::of(0, 1);
  if (!a.is_known() || !b.is_known()) return either_way;
  const std::string_view pred = d.attrs.s(AttrName::pred);
  const bool apart = a.hi < b.lo || b.hi < a.lo, same = a.is_one() && a == b;
  if (pred == "eq" && (apart || same)) return Range::exactly(same ? 1 : 0);
  if (pred == "ne" && (apart || same)) return Range::exactly(same ? 0 : 1);
  if (pred == "lt" && a.hi < b.lo) return Range::exactly(1);
  if (pred == "lt" && a.lo >= b.hi) return Range::exactly(0);
  return either_way;
}

/// A value computed from `assumed` and a constant, where that is in `range`.
Range IndexRanges::under(Value v, Value assumed, const Range& range) {
  if (v == assumed) return range;
  const OpId def = k_[v].def;
  if (!def || k_[def].operands.size() != 2 || k_[def].operands[0] != assumed) return get(v);
  const Range other = get(k_[def].operands[1]);
  if (k_[def].opcode == Opcode::Add) return sum(range, other);
  return k_[def].opcode == Opcode::Sub ? difference(range, other) : get(v);
}

/// Positions in rings wrap: what a comparison with a constant says holds on either side.
Range IndexRanges::of_select(const OpData& d) {
  const Range condition = get(d.operands[0]);
  if (condition.is_one()) return get(d.operands[condition.lo != 0 ? 1 : 2]);
  const Range whole = hull(get(d.operands[1]), get(d.operands[2]));
  const OpId def = k_[d.operands[0]].def;
  if (!def || k_[def].opcode != Opcode::Cmp) return whole;
  const Value x = k_[def].operands[0];
  const Range at = get(x), limit = get(k_[def].operands[1]);
  if (!at.is_known() || !limit.is_known() || !limit.is_one()) return whole;
  const std::string_view pred = k_[def].attrs.s(AttrName::pred);
  Range yes = at, no = at;
  if (pred == "eq") {
    yes = limit;
    no = Range::of(at.lo == limit.lo ? at.lo + 1 : at.lo, at.hi == limit.lo ? at.hi - 1 : at.hi);
  } else if (pred == "lt") {
    yes = Range::of(at.lo, std::min(at.hi, limit.lo - 1));
    no = Range::of(std::max(at.lo, limit.lo), at.hi);
  } else if (pred == "ge") {
    yes = Range::of(std::max(at.lo, limit.lo), at.hi);
    no = Range::of(at.lo, std::min(at.hi, limit.lo - 1));
  } else {
    return whole;
  }
  if (yes.lo > yes.hi) return under(d.operands[2], x, no);
  if (no.lo > no.hi) return under(d.operands[1], x, yes);
  return hull(under(d.operands[1], x, yes), under(d.operands[2], x, no));
}

}  // namespace tegula::codegen
