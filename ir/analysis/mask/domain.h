#pragma once
// Abstract values of an integer that varies over a block: bounds, a congruence, and an exact linear
// form. All arithmetic is on mathematical integers; if a result exceeds 64 bits, the functions
// return nothing and never wrap.
#include "ir/analysis/affine.h"
#include "tegula/dtype.h"

namespace tegula::ir {

/// Closed interval lo..hi.
struct Interval {
  std::int64_t lo = std::numeric_limits<std::int64_t>::min();
  std::int64_t hi = std::numeric_limits<std::int64_t>::max();

  static Interval point(std::int64_t v) { return {v, v}; }
  /// Returns all values of an integer type or i1; for other types, the full 64-bit range.
  static Interval of(DType d);
  bool is_point() const { return lo == hi; }
  bool contains(std::int64_t v) const { return lo <= v && v <= hi; }
  bool is_within(Interval o) const { return o.lo <= lo && hi <= o.hi; }
  /// Returns the number of values minus one, saturated.
  std::uint64_t width() const {
    return static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(lo);
  }
  friend bool operator==(Interval, Interval) = default;
};

std::optional<Interval> add(Interval a, Interval b);
std::optional<Interval> scale(Interval a, std::int64_t factor);
std::optional<Interval> mul(Interval a, Interval b);
/// Returns the smallest interval that contains both.
Interval hull(Interval a, Interval b);
/// Returns the intersection, or `a` if the two are disjoint (possible only for a value that has no
/// meaning).
Interval meet(Interval a, Interval b);

/// v = residue (mod modulus); modulus 0: v is the residue, 1: anything.
struct Congruence {
  std::int64_t modulus = 1, residue = 0;

  static Congruence point(std::int64_t v) { return {0, v}; }
  bool allows(std::int64_t v) const;
  /// Returns the congruence that this one implies modulo `divisor`, a divisor of the modulus.
  Congruence coarser(std::int64_t divisor) const;
};
Congruence add(Congruence a, Congruence b);
Congruence scale(Congruence a, std::int64_t factor);
Congruence mul(Congruence a, Congruence b);
/// Returns the strongest congruence that both imply.
Congruence join(Congruence a, Congruence b);
/// Returns the stronger of two congruences that both hold.
Congruence stronger(Congruence a, Congruence b);
/// Moves the bounds inwards to values that the congruence allows.
Interval tighten(Interval range, Congruence c);

/// A symbol is a node of the mask that is not decomposed.
using Linear = Affine<std::uint32_t, 5>;

}  // namespace tegula::ir
