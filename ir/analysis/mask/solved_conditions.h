#pragma once
// Solves conditions of a mask for kv if a kernel can compute the bounds for every query tile: the
// half of the closed range that is known when a kernel is traced.
#include <algorithm>
#include <optional>
#include <vector>

#include "ir/analysis/mask/blocks.h"
#include "ir/analysis/mask/formula.h"

namespace tegula::ir {

/// No position lies above: kernels whose tensors are larger compute indices in 64 bits, and the
/// rows of a tile that reach past its tensor do so by less than a block.
inline constexpr Interval kMaskPositions{0,
                                         (std::int64_t{1} << 31) - (std::int64_t{1} << 20) + 1024};

/// More intervals than these are not worth the choice between them in every iteration.
inline constexpr std::size_t kMaxSolutionIntervals = 4;

/// Unions of intervals with ends `lo` and `hi` that may be absent; functions `intersect` and `hull`
/// come with the intervals.
template <class T>
std::vector<T> intersection(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> out;
  for (const T& x : a)
    for (const T& y : b) out.push_back(intersect(x, y));
  return out;
}
/// Two that begin, or end, together are one.
template <class T>
std::vector<T> united(std::vector<T> a, const std::vector<T>& b) {
  for (const T& y : b) {
    const auto at =
        std::ranges::find_if(a, [&](const T& x) { return (!x.lo && !y.lo) || (!x.hi && !y.hi); });
    if (at == a.end())
      a.push_back(y);
    else
      *at = hull(*at, y);
  }
  return a;
}

/// Bounds of a condition that is not solved for kv, over the block at hand, where nothing wraps.
Interval truth_of(const MaskCondition& c, const MaskBlocks& blocks);

class SolvedConditions {
 public:
  /// `is_scalar`: which slots of the expression's numbers a kernel can read.
  SolvedConditions(const MaskClosedForm& form, const std::vector<bool>& is_scalar);

  /// (kv + offset) / by, truncated; the offset is of Scalars and constants.
  struct Quotient {
    MaskNodeId by;
    Linear offset;
  };
  /// kv < form if `is_upper`, else kv >= form; of the quotient where there is one. The form is of
  /// symbols that do not fall with q.
  struct Limit {
    Linear form;
    bool is_upper;
    std::optional<Quotient> of = {};
  };
  /// Solution of a condition; all members are absent if nothing is known.
  struct Solution {
    std::optional<Limit> limit;
    std::optional<Interval> truth;  ///< over all positions, of what is not solved for kv
    /// Nodes that must not wrap around for that to hold, and may.
    std::vector<MaskNodeId> overflow_checks = {};
  };
  Solution solve(const MaskCondition& c) const;
  /// Bounds of a part of the formula that is not taken apart, over all positions.
  Interval truth_of_opaque(const MaskFormula& f) const;
  /// Whether such a part compares what rises with q with a number, so that between the first row
  /// and the last it changes at most once.
  bool is_of_rows(const MaskFormula& f) const;
  /// Nodes below one that may wrap around.
  std::vector<MaskNodeId> wrapping(MaskNodeId id) const;

  /// Number of intervals of the visible keys of a query tile; nothing if not all of their bounds
  /// can be computed.
  std::optional<std::size_t> intervals() const;

  /// Whether the mask is one comparison, before whose limit all keys are visible.
  bool is_single_comparison() const;

  /// Bounds of a symbol at all positions, if it fits.
  Interval range_of_symbol(MaskNodeId id) const;
  /// Whether a node is a Scalar of i32.
  bool is_scalar(MaskNodeId id) const;

  const MaskNode& node(MaskNodeId id) const { return form_.expr[id]; }
  bool may_overflow(MaskNodeId id) const { return blocks_.may_overflow(id); }

 private:
  /// Ends that an interval of keys has; one without both holds all of them.
  struct Shape {
    bool lo = false, hi = false;
    friend Shape intersect(Shape a, Shape b) { return {a.lo || b.lo, a.hi || b.hi}; }
    friend Shape hull(Shape a, Shape b) { return {a.lo && b.lo, a.hi && b.hi}; }
  };
  struct Shapes;

  std::optional<Limit> limit(const MaskCondition& c) const;
  /// Whether MaskOverflow can follow a node.
  bool is_checkable(MaskNodeId id) const;
  /// A positive constant, or a Scalar.
  bool is_divisor(MaskNodeId id) const;
  std::optional<Quotient> quotient(const MaskCondition& c) const;
  /// q, a Scalar, or a quotient of q plus such numbers: what does not fall with q.
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
