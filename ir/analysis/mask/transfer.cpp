// Transfer functions for arithmetic, comparison and selection.
#include "ir/analysis/mask/transfer.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "ir/op_table.h"
#include "tegula/int_math.h"

namespace tegula::ir {
namespace {

using Result = MaskTransfer::Result;

/// Largest number of pieces with constant quotient for which a block is cut.
constexpr std::uint64_t kMaxPieces = 16;

Result add_(MaskTransfer& t) { return t.sum(t.operand(0), t.operand(1), 1); }

/// On one-bit numbers addition is exclusive or; `finish` wraps it like any other sum.
Result sub_(MaskTransfer& t) { return t.sum(t.operand(0), t.operand(1), -1); }

Result mul_(MaskTransfer& t) {
  const MaskValue &a = t.operand(0), &b = t.operand(1);
  if (b.range.is_point()) return t.scaled(a, b.range.lo);
  if (a.range.is_point()) return t.scaled(b, a.range.lo);
  const auto range = mul(a.range, b.range);
  if (!range) return std::nullopt;
  return t.value(*range, mul(a.stride, b.stride));
}

Result neg_(MaskTransfer& t) { return t.scaled(t.operand(0), -1); }

Result abs_(MaskTransfer& t) {
  const MaskValue& a = t.operand(0);
  const auto negated = t.scaled(a, -1);
  return negated ? t.larger(a, *negated) : std::nullopt;
}

Result min_(MaskTransfer& t) { return t.smaller(t.operand(0), t.operand(1)); }
Result max_(MaskTransfer& t) { return t.larger(t.operand(0), t.operand(1)); }

Result divide(MaskTransfer& t) {
  const MaskValue &a = t.operand(0), &b = t.operand(1);
  if (b.range.contains(0)) return std::nullopt;
  if (b.range.is_point()) return t.quotient(a, b.range.lo);
  Interval range = Interval::point(0);
  bool first = true;
  for (const std::int64_t x : {a.range.lo, a.range.hi})
    for (const std::int64_t y : {b.range.lo, b.range.hi}) {
      if (y == -1 && x == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
      range = first ? Interval::point(x / y) : hull(range, Interval::point(x / y));
      first = false;
    }
  return t.value(range);
}

Result remainder(MaskTransfer& t) {
  const MaskValue &a = t.operand(0), &b = t.operand(1);
  if (b.range.contains(0)) return std::nullopt;
  if (b.range.is_point()) return t.remainder(a, b.range.lo);
  if (b.range.lo < 0) return std::nullopt;
  const std::int64_t most = b.range.hi - 1;
  return t.value({a.range.lo < 0 ? std::max(-most, a.range.lo) : 0,
                  a.range.hi > 0 ? std::min(most, a.range.hi) : 0});
}

Result shift_left(MaskTransfer& t) {
  const MaskValue& by = t.operand(1);
  if (!by.range.is_point()) return std::nullopt;
  const std::int64_t n = by.range.lo;
  if (n < 0 || n >= size_bits(t.node.dtype)) return t.constant(0);
  return n < 63 ? t.scaled(t.operand(0), std::int64_t{1} << n) : std::nullopt;
}

Result shift_right(MaskTransfer& t) {
  const MaskValue &a = t.operand(0), &by = t.operand(1);
  const auto amount = [&](std::int64_t n) {  // negative amounts are unsigned and exceed any width
    return n < 0 || n > 63 ? std::int64_t{63} : n;
  };
  if (by.range.lo < 0 && !by.range.is_point()) return std::nullopt;
  const std::int64_t least = amount(by.range.lo), most = amount(by.range.hi);
  if (least != most) {
    const Interval x{a.range.lo >> least, a.range.lo >> most};
    const Interval y{a.range.hi >> least, a.range.hi >> most};
    return t.value({std::min(x.lo, x.hi), std::max(y.lo, y.hi)});
  }
  const auto range = interval_rules::shifted_right(wide(a.range), static_cast<int>(least));
  if (least < 62) {
    const std::int64_t divisor = std::int64_t{1} << least;
    if (a.form.is_divisible(divisor))
      return MaskValue{*fitted(range), {}, divide_exactly(a.form, divisor)};
    if (a.range.width() >> least < kMaxPieces)
      t.suggest(a, checked_mul((a.range.lo >> least) + 1, divisor));
  }
  return t.bounded(range);
}

bool both_bool(const MaskTransfer& t) { return is_bool(t.node.dtype); }

Result bitwise(MaskTransfer& t) {
  const Opcode op = t.node.opcode;
  const MaskValue &a = t.operand(0), &b = t.operand(1);
  if (b.range.is_point()) return t.bits(op, a, b.range.lo);
  if (a.range.is_point()) return t.bits(op, b, a.range.lo);
  const bool a_natural = a.range.lo >= 0, b_natural = b.range.lo >= 0;
  if (op == Opcode::And) {
    if (!a_natural && !b_natural) return std::nullopt;
    const std::int64_t most = !a_natural   ? b.range.hi
                              : !b_natural ? a.range.hi
                                           : std::min(a.range.hi, b.range.hi);
    return t.value({0, most});
  }
  if (!a_natural || !b_natural) return std::nullopt;
  const int width = std::bit_width(static_cast<std::uint64_t>(a.range.hi | b.range.hi));
  const auto most = static_cast<std::int64_t>((std::uint64_t{1} << width) - 1);
  return t.value({op == Opcode::Or ? std::max(a.range.lo, b.range.lo) : 0, most});
}

Result and_(MaskTransfer& t) { return both_bool(t) ? min_(t) : bitwise(t); }
Result or_(MaskTransfer& t) { return both_bool(t) ? max_(t) : bitwise(t); }

/// Returns the i1 that is `when_equal` where the difference is 0, and its negation elsewhere.
MaskValue equals(const MaskTransfer& t, const MaskValue& difference, bool when_equal) {
  if (difference.range == Interval::point(0)) return t.constant(when_equal);
  if (!difference.range.contains(0) || !difference.stride.allows(0)) return t.constant(!when_equal);
  return t.value({0, 1});
}

Result xor_(MaskTransfer& t) {
  if (!both_bool(t)) return bitwise(t);
  return equals(t, t.difference(t.operand(0), t.operand(1)), false);
}

Result not_(MaskTransfer& t) {
  const auto negated = t.scaled(t.operand(0), -1);
  const Interval all = Interval::of(t.node.dtype);
  if (!negated) return std::nullopt;
  return t.plus(*negated, all.lo < 0 ? -1 : all.hi);
}

Result compare(MaskTransfer& t) {
  const MaskValue d = t.difference(t.operand(0), t.operand(1));
  if (t.node.pred == MaskPred::Eq || t.node.pred == MaskPred::Ne) {
    const MaskValue v = equals(t, d, t.node.pred == MaskPred::Eq);
    if (!v.range.is_point()) {  // cuts before the zeros, or after them if there is nothing before
      t.suggest(d, d.range.lo < 0 ? 0 : 1);
    }
    return v;
  }
  const std::int64_t limit = t.node.pred == MaskPred::Lt ? 0 : 1;  // true where d < limit
  if (d.range.hi < limit) return t.constant(1);
  if (d.range.lo >= limit) return t.constant(0);
  t.suggest(d, limit);
  return t.value({0, 1});
}

Result select(MaskTransfer& t) {
  const MaskValue &c = t.operand(0), &a = t.operand(1), &b = t.operand(2);
  if (c.range.is_point()) return c.range.lo ? a : b;
  return t.value(hull(a.range, b.range), join(a.stride, b.stride));
}

Result convert(MaskTransfer& t) { return t.operand(0); }

Result count_bits(MaskTransfer& t) { return t.value({0, size_bits(t.node.dtype)}); }

constexpr auto kTable = op_table<MaskTransfer::Fn>({
    {Opcode::Add, add_},        {Opcode::Sub, sub_},       {Opcode::Mul, mul_},
    {Opcode::Div, divide},      {Opcode::Rem, remainder},  {Opcode::Min, min_},
    {Opcode::Max, max_},        {Opcode::Neg, neg_},       {Opcode::Abs, abs_},
    {Opcode::And, and_},        {Opcode::Or, or_},         {Opcode::Xor, xor_},
    {Opcode::Not, not_},        {Opcode::Shl, shift_left}, {Opcode::Shr, shift_right},
    {Opcode::Popc, count_bits}, {Opcode::Clz, count_bits}, {Opcode::Cmp, compare},
    {Opcode::Select, select},   {Opcode::Cast, convert},   {Opcode::Bitcast, convert},
});

}  // namespace

MaskTransfer::Fn MaskTransfer::of(Opcode op) { return kTable[static_cast<std::size_t>(op)]; }

// ---- building blocks ----------------------------------------------------------------------------
Result MaskTransfer::sum(const MaskValue& a, const MaskValue& b, std::int64_t factor) const {
  const auto term = scale(b.range, factor);
  const auto range = term ? add(a.range, *term) : std::nullopt;
  if (!range) return std::nullopt;
  const auto form = add(a.form, b.form, factor);
  return MaskValue{*range, add(a.stride, scale(b.stride, factor)),
                   form ? *form : Linear::symbol(id)};
}

Result MaskTransfer::scaled(const MaskValue& a, std::int64_t factor) const {
  return sum(constant(0), a, factor);
}
Result MaskTransfer::plus(const MaskValue& a, std::int64_t c) const {
  return sum(a, constant(c), 1);
}

MaskValue MaskTransfer::difference(const MaskValue& a, const MaskValue& b) const {
  auto d = sum(a, b, -1);
  if (!d) return value({});
  blocks.reduce(*d);
  return *d;
}

Result MaskTransfer::smaller(const MaskValue& a, const MaskValue& b) {
  const MaskValue d = difference(a, b);
  if (d.range.hi <= 0) return a;
  if (d.range.lo >= 0) return b;
  suggest(d, 0);
  return bounded(interval_rules::smaller(wide(a.range), wide(b.range)), join(a.stride, b.stride));
}
Result MaskTransfer::larger(const MaskValue& a, const MaskValue& b) {
  const MaskValue d = difference(a, b);
  if (d.range.hi <= 0) return b;
  if (d.range.lo >= 0) return a;
  suggest(d, 0);
  return bounded(interval_rules::larger(wide(a.range), wide(b.range)), join(a.stride, b.stride));
}

/// Returns the smallest number after `from` whose truncated quotient by `size` > 0 differs.
static std::optional<std::int64_t> next_quotient(std::int64_t from, std::int64_t size) {
  const std::int64_t q = from / size;
  const auto edge = checked_mul(q < 0 ? q : q + 1, size);
  return edge && q < 0 ? checked_add(*edge, 1) : edge;
}

Result MaskTransfer::quotient(const MaskValue& a, std::int64_t divisor) {
  if (divisor == -1) return scaled(a, -1);
  if (divisor == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
  const std::int64_t size = divisor < 0 ? -divisor : divisor;
  const Interval range = *fitted(interval_rules::quotient(wide(a.range), WideInt{size}));
  if (a.form.is_divisible(size)) {
    const MaskValue exact{range, {}, divide_exactly(a.form, size)};
    return divisor > 0 ? Result(exact) : scaled(exact, -1);
  }
  if (range.width() < kMaxPieces) suggest(a, next_quotient(a.range.lo, size));
  return value(divisor > 0 ? range : Interval{-range.hi, -range.lo});
}

Result MaskTransfer::remainder(const MaskValue& a, std::int64_t divisor) {
  if (divisor == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
  const std::int64_t size = divisor < 0 ? -divisor : divisor;
  const std::int64_t first = a.range.lo / size, last = a.range.hi / size;
  if (size == 1) return constant(0);
  const auto whole = checked_mul(first, -size);
  if (first == last && whole) return plus(a, *whole);
  if (static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first) < kMaxPieces)
    suggest(a, next_quotient(a.range.lo, size));
  return bounded(interval_rules::remainder(wide(a.range), WideInt{size}),
                 a.stride.coarser(std::gcd(a.stride.modulus, size)));
}

/// Evaluates a bitwise op with a constant. In an aligned block of 2^k values only the low k bits
/// vary.
Result MaskTransfer::bits(Opcode op, const MaskValue& a, std::int64_t mask) {
  const auto apply = [&](std::int64_t x) {
    return op == Opcode::And ? x & mask : op == Opcode::Or ? x | mask : x ^ mask;
  };
  const bool is_prefix =
      op == Opcode::And && mask >= 0 && mask < (std::int64_t{1} << 60) && ((mask + 1) & mask) == 0;
  const Congruence stride =
      is_prefix ? a.stride.coarser(std::gcd(a.stride.modulus, mask + 1))
      : op == Opcode::And && mask != 0 && mask != std::numeric_limits<std::int64_t>::min()
          ? Congruence{mask & -mask, 0}
          : Congruence{};
  const int k = std::bit_width(static_cast<std::uint64_t>(a.range.lo ^ a.range.hi));
  if (k > 61)
    return op == Opcode::And && mask >= 0 ? Result(value({0, mask}, stride)) : std::nullopt;
  const std::int64_t low = (std::int64_t{1} << k) - 1, base = a.range.lo & ~low;
  const std::int64_t high = apply(base) & ~low, varying = mask & low;
  if (varying == 0 || varying == low) {
    if (op == Opcode::And && varying == 0) return constant(high);
    if (op == Opcode::Or && varying == low) return constant(high | low);
    // The low bits are unchanged or inverted.
    const bool is_inverted = op == Opcode::Xor && varying == low && low != 0;
    const auto offset = is_inverted ? sum(constant(base), a, -1) : sum(a, constant(base), -1);
    return offset ? plus(*offset, is_inverted ? high | low : high) : std::nullopt;
  }
  const std::int64_t period = varying & (varying + 1) ? low / 2 + 1 : varying + 1;
  if (a.range.width() / static_cast<std::uint64_t>(period) < kMaxPieces)
    suggest(a, checked_mul(floor_div(a.range.lo, period) + 1, period));
  if (op == Opcode::And) return value({high, high + varying}, stride);
  return value({op == Opcode::Or ? high | varying : high, high | low});
}

}  // namespace tegula::ir
