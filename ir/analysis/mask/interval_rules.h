#pragma once
// Bounds of an op's result from bounds of its operands, written once for every number type: 128-bit
// host integers, for which no rule overflows, or tiles that a kernel records
// (dsl/block_mask/recorded_interval). Operators, `min`, `max` and `where` come from the type. Each
// rule is a function object.
#include <cstdint>
#include <optional>

#include "ir/analysis/mask/domain.h"

namespace tegula::ir {

using WideInt = __int128;

/// lo <= x <= hi. For a condition, `lo` is true if it holds everywhere and `hi` if it holds
/// somewhere.
template <class N>
struct Enclosure {
  N lo, hi;
};

inline Enclosure<WideInt> wide(Interval i) { return {i.lo, i.hi}; }
/// Returns nothing if 64 bits cannot represent the bounds.
inline std::optional<Interval> fitted(const Enclosure<WideInt>& b) {
  const Interval all;
  if (b.lo < all.lo || b.hi > all.hi) return std::nullopt;
  return Interval{static_cast<std::int64_t>(b.lo), static_cast<std::int64_t>(b.hi)};
}

namespace interval_rules {

inline WideInt min(WideInt a, WideInt b) { return a < b ? a : b; }
inline WideInt max(WideInt a, WideInt b) { return a < b ? b : a; }
inline WideInt where(bool condition, WideInt a, WideInt b) { return condition ? a : b; }

// ---- numbers ------------------------------------------------------------------------------------
inline constexpr auto sum = []<class N>(const Enclosure<N>& a, const Enclosure<N>& b) {
  return Enclosure<N>{a.lo + b.lo, a.hi + b.hi};
};
inline constexpr auto difference = []<class N>(const Enclosure<N>& a, const Enclosure<N>& b) {
  return Enclosure<N>{a.lo - b.hi, a.hi - b.lo};
};
inline constexpr auto negation = []<class N>(const Enclosure<N>& a) {
  return Enclosure<N>{-a.hi, -a.lo};
};
inline constexpr auto product = []<class N>(const Enclosure<N>& a, const Enclosure<N>& b) {
  const N x = a.lo * b.lo, y = a.lo * b.hi, z = a.hi * b.lo, w = a.hi * b.hi;
  return Enclosure<N>{min(min(x, y), min(z, w)), max(max(x, y), max(z, w))};
};
inline constexpr auto magnitude = []<class N>(const Enclosure<N>& a) {
  return Enclosure<N>{max(0, max(a.lo, -a.hi)), max(-a.lo, a.hi)};
};
inline constexpr auto smaller = []<class N>(const Enclosure<N>& a, const Enclosure<N>& b) {
  return Enclosure<N>{min(a.lo, b.lo), min(a.hi, b.hi)};
};
inline constexpr auto larger = []<class N>(const Enclosure<N>& a, const Enclosure<N>& b) {
  return Enclosure<N>{max(a.lo, b.lo), max(a.hi, b.hi)};
};
inline constexpr auto hull = []<class N>(const Enclosure<N>& a, const Enclosure<N>& b) {
  return Enclosure<N>{min(a.lo, b.lo), max(a.hi, b.hi)};
};
/// Truncating division by a positive number.
inline constexpr auto quotient = []<class N>(const Enclosure<N>& a, const N& by) {
  return Enclosure<N>{a.lo / by, a.hi / by};
};
/// Bounds of a quotient or a remainder by any positive number.
inline constexpr auto towards_zero = []<class N>(const Enclosure<N>& a) {
  return Enclosure<N>{min(0, a.lo), max(0, a.hi)};
};
/// Remainder by a positive number, with the sign of the dividend. It is linear if all quotients are
/// equal.
inline constexpr auto remainder = []<class N>(const Enclosure<N>& a, const N& by) {
  const N first = a.lo / by;
  const auto is_straight = first == a.hi / by;
  const N most = by - 1;
  return Enclosure<N>{where(is_straight, a.lo - first * by, max(min(0, a.lo), -most)),
                      where(is_straight, a.hi - first * by, min(max(0, a.hi), most))};
};
/// Bounds of x & (2^bits - 1).
template <class N>
Enclosure<N> low_bits(const Enclosure<N>& a, int bits) {
  const std::int64_t mask = (std::int64_t{1} << bits) - 1;
  const auto is_straight = (a.lo >> bits) == (a.hi >> bits);
  return {where(is_straight, a.lo & mask, 0), where(is_straight, a.hi & mask, mask)};
}
template <class N>
Enclosure<N> shifted_right(const Enclosure<N>& a, int bits) {
  return {a.lo >> bits, a.hi >> bits};
}
/// Bounds of `a` where the condition holds, else of `b`.
template <class N, class C>
Enclosure<N> chosen(const Enclosure<C>& condition, const Enclosure<N>& a, const Enclosure<N>& b) {
  const Enclosure<N> either = hull(a, b);
  const auto pick = [&](const N& x, const N& y, const N& both) {
    return where(condition.lo, x, where(condition.hi, both, y));
  };
  return {pick(a.lo, b.lo, either.lo), pick(a.hi, b.hi, either.hi)};
}

// ---- conditions ---------------------------------------------------------------------------------
inline constexpr auto less = []<class N>(const Enclosure<N>& a, const Enclosure<N>& b) {
  return Enclosure{a.hi < b.lo, a.lo < b.hi};
};
inline constexpr auto less_equal = []<class N>(const Enclosure<N>& a, const Enclosure<N>& b) {
  return Enclosure{a.hi <= b.lo, a.lo <= b.hi};
};
inline constexpr auto equal = []<class N>(const Enclosure<N>& a, const Enclosure<N>& b) {
  return Enclosure{a.lo == b.hi && a.hi == b.lo, a.lo <= b.hi && b.lo <= a.hi};
};
inline constexpr auto negated = []<class C>(const Enclosure<C>& a) {
  return Enclosure<C>{!a.hi, !a.lo};
};
inline constexpr auto both = []<class C>(const Enclosure<C>& a, const Enclosure<C>& b) {
  return Enclosure<C>{a.lo && b.lo, a.hi && b.hi};
};
inline constexpr auto either = []<class C>(const Enclosure<C>& a, const Enclosure<C>& b) {
  return Enclosure<C>{a.lo || b.lo, a.hi || b.hi};
};
inline constexpr auto exactly_one = []<class C>(const Enclosure<C>& a, const Enclosure<C>& b) {
  return Enclosure<C>{(a.lo && !b.hi) || (b.lo && !a.hi), (a.hi && !b.lo) || (b.hi && !a.lo)};
};
template <class C>
Enclosure<C> chosen_condition(const Enclosure<C>& c, const Enclosure<C>& a, const Enclosure<C>& b) {
  const auto pick = [&](const C& x, const C& y, const C& both_ways) {
    return (c.lo && x) || (!c.hi && y) || (c.hi && !c.lo && both_ways);
  };
  return {pick(a.lo, b.lo, a.lo && b.lo), pick(a.hi, b.hi, a.hi || b.hi)};
}

}  // namespace interval_rules
}  // namespace tegula::ir
