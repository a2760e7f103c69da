#pragma once
// Solves conditions of a mask for kv if a kernel can compute the bounds for every query tile: the
// half of the closed range that is known when a kernel is traced.
#include <algorithm>
#include <optional>
#include <vector>

#include "ir/analysis/mask/blocks.h"
#include "ir/analysis/mask/formula.h"

namespace tegula::ir {

/// Range of positions. Kernels with larger tensors compute indices in 64 bits, and the rows of a
/// tile extend past the end of its tensor by less than a block.
inline constexpr Interval kMaskPositions{0,
                                         (std::int64_t{1} << 31) - (std::int64_t{1} << 20) + 1024};

/// Maximum number of intervals; with more, selecting one in every iteration costs more than it
/// saves.
inline constexpr std::size_t kMaxSolutionIntervals = 4;

/// Intersects two unions of intervals whose ends `lo` and `hi` may be absent. The interval type
/// provides functions `intersect` and `hull`.
template <class T>
std::vector<T> intersection(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> out;
  for (const T& x : a)
    for (const T& y : b) out.push_back(intersect(x, y));
  return out;
}
/// Unites two unions. Two intervals that begin, or end, together become their hull.
template <class T>
std::vector<T> united(std::vector<T> a, const std::vector<T>& b) {
  for (const T& y : b) {
    const auto found =
        std::ranges::find_if(a, [&](const T& x) { return (!x.lo && !y.lo) || (!x.hi && !y.hi); });
    if (found == a.end())
      a.push_back(y);
    else
      *found = hull(*found, y);
  }
  return a;
}

/// Returns bounds of a condition that is not solved for kv, over the current block, if nothing
/// wraps.
Interval truth_of(const MaskCondition& c, const MaskBlocks& blocks);

class SolvedConditions {
 public:
  /// `is_scalar`: slots of the expression's numbers that a kernel can read.
  SolvedConditions(const MaskClosedForm& form, const std::vector<bool>& is_scalar);

  /// (kv + offset) / by, truncated. The offset consists of Scalars and constants.
  struct Quotient {
    MaskNodeId by;
    Linear offset;
  };
  /// kv < form if `is_upper`, else kv >= form. If `of` is present, the quotient takes the place of
  /// kv. The symbols of the form are non-decreasing in q.
  struct Limit {
    Linear form;
    bool is_upper;
    std::optional<Quotient> of = {};
  };
  /// Solution of a condition. All members are absent if nothing is known.
  struct Solution {
    std::optional<Limit> limit;
    std::optional<Interval> truth;  ///< over all positions, if not solved for kv
    /// Nodes that may wrap around and must not, for the solution to hold.
    std::vector<MaskNodeId> overflow_checks = {};
  };
  Solution solve(const MaskCondition& c) const;
  /// Returns bounds of an opaque part of the formula, over all positions.
  Interval truth_of_opaque(const MaskFormula& f) const;
  /// Returns true if an opaque part compares a value that increases with q with a number, so that
  /// it changes at most once between the first row and the last one.
  bool is_of_rows(const MaskFormula& f) const;
  /// Returns the nodes below `id`, inclusive, that may wrap around.
  std::vector<MaskNodeId> wrapping(MaskNodeId id) const;

  /// Returns the number of intervals of the visible keys of a query tile, or nothing if some of
  /// their bounds cannot be computed.
  std::optional<std::size_t> intervals() const;

  /// Returns true if the mask is one comparison, and all keys before its limit are visible.
  bool is_single_comparison() const;

  /// Returns bounds of a symbol over all positions, if it does not wrap.
  Interval range_of_symbol(MaskNodeId id) const;
  /// Returns true if a node is an i32 Scalar.
  bool is_scalar(MaskNodeId id) const;

  const MaskNode& node(MaskNodeId id) const { return form_.expr[id]; }
  bool may_overflow(MaskNodeId id) const { return blocks_.may_overflow(id); }

 private:
  /// Ends that an interval of keys has. An interval without ends contains all keys.
  struct Shape {
    bool lo = false, hi = false;
    friend Shape intersect(Shape a, Shape b) { return {a.lo || b.lo, a.hi || b.hi}; }
    friend Shape hull(Shape a, Shape b) { return {a.lo && b.lo, a.hi && b.hi}; }
  };
  struct Shapes;

  std::optional<Limit> limit(const MaskCondition& c) const;
  /// Returns true if MaskOverflow supports the node.
  bool is_checkable(MaskNodeId id) const;
  /// Returns true for a positive constant or a Scalar.
  bool is_divisor(MaskNodeId id) const;
  std::optional<Quotient> quotient(const MaskCondition& c) const;
  /// Returns true for q, a Scalar, or a quotient of q plus numbers; all of them are non-decreasing
  /// in q.
  bool is_symbol(MaskNodeId id) const;
  bool is_rising(MaskNodeId id) const;
  bool is_number(MaskNodeId id) const;
  bool are_symbols(const Linear& form) const;
  bool are_checkable(const std::vector<MaskNodeId>& nodes) const;
  void collect_wrapping(MaskNodeId id, std::vector<MaskNodeId>& into) const;

  const MaskClosedForm& form_;
  const std::vector<bool>& is_scalar_;
  MaskBlocks blocks_;
};

}  // namespace tegula::ir
