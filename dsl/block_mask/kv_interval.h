#pragma once
// Intervals of keys whose ends are numbers of the kernel that is being traced.
#include <algorithm>
#include <optional>

#include "ir/analysis/mask/domain.h"
#include "tegula/block_mask.h"
#include "tegula/tegula.h"

namespace tegula {

/// A number of the kernel (i32), and what is known of it now.
struct End {
  Tile tile;
  ir::Interval range;
};
inline End larger(const End& a, const End& b) {
  if (a.range.lo >= b.range.hi) return a;
  if (b.range.lo >= a.range.hi) return b;
  return {max(a.tile, b.tile),
          {std::max(a.range.lo, b.range.lo), std::max(a.range.hi, b.range.hi)}};
}
inline End smaller(const End& a, const End& b) {
  if (a.range.hi <= b.range.lo) return a;
  if (b.range.hi <= a.range.lo) return b;
  return {min(a.tile, b.tile),
          {std::min(a.range.lo, b.range.lo), std::min(a.range.hi, b.range.hi)}};
}

/// kv in [lo, hi); an end that is absent is that of all keys. Nothing where lo >= hi.
struct Span {
  std::optional<End> lo, hi;
};

template <class T, class Fn>
std::optional<T> of_both(const std::optional<T>& a, const std::optional<T>& b, Fn pick) {
  return a && b ? std::optional(pick(*a, *b)) : std::nullopt;
}
template <class T, class Fn>
std::optional<T> of_either(const std::optional<T>& a, const std::optional<T>& b, Fn pick) {
  return a && b ? std::optional(pick(*a, *b)) : a ? a : b;
}
inline Span meet(const Span& a, const Span& b) {
  return {of_either(a.lo, b.lo, larger), of_either(a.hi, b.hi, smaller)};
}
/// Around both, what lies between them included.
inline Span around(const Span& a, const Span& b) {
  return {of_both(a.lo, b.lo, smaller), of_both(a.hi, b.hi, larger)};
}
/// Part of what one of them holds: all of it where they share an end, else one of the two.
inline Span within_either(const Span& a, const Span& b) {
  const bool share_end = (!a.lo && !b.lo) || (!a.hi && !b.hi);
  if (share_end) return around(a, b);
  return a.hi && !b.hi ? b : a;
}

/// The range for the loop over keys: inside of [0, length], and its ends in order.
inline KvRange clip(const Span& s, const Tile& length) {
  if (!s.lo) {
    const End hi = s.hi ? larger(*s.hi, {full<i32>(0), ir::Interval::point(0)}) : End{length, {}};
    return {full<i32>(0), min(hi.tile, length)};
  }
  const End positive = larger(*s.lo, {full<i32>(0), ir::Interval::point(0)});
  const Tile lo = min(positive.tile, length);
  return {lo, s.hi ? max(min(s.hi->tile, length), lo) : length};
}

}  // namespace tegula
