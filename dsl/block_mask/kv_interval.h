#pragma once
// Intervals of keys whose ends are values of the kernel that is being traced.
#include <algorithm>
#include <optional>

#include "ir/analysis/mask/domain.h"
#include "tegula/block_mask.h"
#include "tegula/tegula.h"

namespace tegula {

/// A value of the kernel (i32), and the range that is known for it during tracing.
struct RecordedBound {
  Tile tile;
  ir::Interval range;
};
inline RecordedBound larger(const RecordedBound& a, const RecordedBound& b) {
  if (a.range.lo >= b.range.hi) return a;
  if (b.range.lo >= a.range.hi) return b;
  return {max(a.tile, b.tile),
          {std::max(a.range.lo, b.range.lo), std::max(a.range.hi, b.range.hi)}};
}
inline RecordedBound smaller(const RecordedBound& a, const RecordedBound& b) {
  if (a.range.hi <= b.range.lo) return a;
  if (b.range.hi <= a.range.lo) return b;
  return {min(a.tile, b.tile),
          {std::min(a.range.lo, b.range.lo), std::min(a.range.hi, b.range.hi)}};
}

/// kv in [lo, hi); an absent end is that of all keys. Empty if lo >= hi.
struct KvInterval {
  std::optional<RecordedBound> lo, hi;
};

template <class T, class Fn>
std::optional<T> of_both(const std::optional<T>& a, const std::optional<T>& b, Fn pick) {
  return a && b ? std::optional(pick(*a, *b)) : std::nullopt;
}
template <class T, class Fn>
std::optional<T> of_either(const std::optional<T>& a, const std::optional<T>& b, Fn pick) {
  return a && b ? std::optional(pick(*a, *b)) : a ? a : b;
}
inline KvInterval intersect(const KvInterval& a, const KvInterval& b) {
  return {of_either(a.lo, b.lo, larger), of_either(a.hi, b.hi, smaller)};
}
/// Hull of both, including the keys between them.
inline KvInterval hull(const KvInterval& a, const KvInterval& b) {
  return {of_both(a.lo, b.lo, smaller), of_both(a.hi, b.hi, larger)};
}
/// Returns an interval within the union: all of it if they share an end, else one of the two.
inline KvInterval inner_hull(const KvInterval& a, const KvInterval& b) {
  const bool share_end = (!a.lo && !b.lo) || (!a.hi && !b.hi);
  if (share_end) return hull(a, b);
  return a.hi && !b.hi ? b : a;
}

/// Returns the range for the loop over keys: clamped to [0, length], with lo <= hi.
inline KvRange clamp_to_range(const KvInterval& s, const Tile& length) {
  if (!s.lo) {
    const RecordedBound hi =
        s.hi ? larger(*s.hi, {full<i32>(0), ir::Interval::point(0)}) : RecordedBound{length, {}};
    return {full<i32>(0), min(hi.tile, length)};
  }
  const RecordedBound positive = larger(*s.lo, {full<i32>(0), ir::Interval::point(0)});
  const Tile lo = min(positive.tile, length);
  return {lo, s.hi ? max(min(s.hi->tile, length), lo) : length};
}

}  // namespace tegula
