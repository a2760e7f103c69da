#pragma once
// Proves comparisons between scalar integers at a point of the kernel, from `assume` ops, loop
// bounds, grid indices, extents, minima and maxima. Does not modify the kernel.
#include <compare>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true if the `assume` states a fact for the analyses. An `assume` of kind "inside",
/// "elements" or "contraction" is only a check, and one of kind "reads" asks for such checks
/// (ir/passes/outside_reads); their conditions must not change the code.
bool states_fact(const Kernel& k, OpId assume);
/// Returns true for an `assume` of kind "count", which states 0 <= a < b for its condition a < b.
bool counts_from_zero(const Kernel& k, OpId assume);

/// Proves comparisons from `assume` ops and definitions. An `assume` applies where it dominates,
/// and to values computed in its own region, because they are never computed without the assume
/// being reached. Sums are assumed not to wrap, as indices do not. Numbers of fewer than 32 bits,
/// and numbers that a cast may have changed, are separate nodes.
class Facts {
 public:
  explicit Facts(const Kernel& k);

  /// Returns true if offset + extent <= the view's dimension whenever `point` is executed, or in
  /// the whole kernel if `point` is absent.
  bool ends_inside(Value offset, std::int64_t extent, Value view, int axis, OpId point = {}) const;
  /// Returns true if the view's dimension is at most `b`.
  bool is_extent_at_most(Value view, int axis, Value b, OpId point = {}) const {
    Search s{point};
    return reaches(extent(view, axis), term(b), s);
  }
  /// Returns true if the value is at most `limit`.
  bool is_at_most(Value v, std::int64_t limit, OpId point = {}) const {
    Search s{point};
    return reaches(term(v), {{}, {}, limit}, s);
  }
  /// Returns a lower bound of the value, if one is known.
  std::optional<std::int64_t> least(Value v, OpId point = {}) const;
  /// Returns true if the integer value is known to be >= 0 whenever `point` is executed, or
  /// everywhere if `point` is absent.
  bool is_non_negative(Value v, OpId point = {}) const {
    const auto low = least(v, point);
    return low && *low >= 0;
  }
  /// Returns true if offset >= 0 and offset + extent <= the view's dimension for every execution of
  /// `point`.
  bool is_inside(Value offset, std::int64_t extent, Value view, int axis, OpId point) const {
    return is_non_negative(offset, point) && ends_inside(offset, extent, view, axis, point);
  }
  /// Returns true if an `assume` that applies to `point` states a < b.
  bool is_less(Value a, Value b, OpId point) const;
  /// Returns an upper bound of a scalar integer that is known to be >= 0 and whose computation
  /// cannot have wrapped; otherwise nothing. This is stricter than is_non_negative, which accepts
  /// sums and products of any size, and serves rewrites that must not rely on indices not wrapping.
  std::optional<std::int64_t> upper_bound(Value v) const;

 private:
  class UpperBound;

  /// A value, the extent of a view's dimension (axis >= 0), or the number 0 (index kZero).
  struct Node {
    std::uint32_t index = kZero;
    int axis = -1;
    friend auto operator<=>(const Node&, const Node&) = default;
  };
  static constexpr std::uint32_t kZero = UINT32_MAX;
  /// node + plus; `value` is the value that the node was created from.
  struct Term {
    Node node;
    Value value;
    std::int64_t plus = 0;
  };
  /// The node that owns the edge is at most (in least_: at least) `other` wherever `assume` holds.
  struct Edge {
    Term other;
    Value left, right;
    OpId assume;
    bool is_strict;
  };
  using Edges = std::map<Node, std::vector<Edge>>;
  struct Search {
    OpId at;
    int remaining_steps = 256;
    int depth = 0;
  };

  void collect(OpId assume, Value condition);
  void add(OpId assume, Value less, Value more, std::int64_t strict);
  Term term(Value v) const;
  Term extent(Value view, int axis) const;
  bool holds(const Edge& e, OpId point) const;
  bool is_stated_non_negative(Value v) const;
  RegionId home(Value v) const;
  bool is_induction(Value v) const;
  bool is_not_lowered(const OpData& cast, Search& s) const;
  bool is_not_raised(const OpData& cast, Search& s) const;

  bool reaches(Term x, const Term& target, Search& s) const;
  std::vector<Term> above(const Term& x, Search& s) const;
  void above_product(const Term& x, std::vector<Term>& all, Search& s) const;
  bool all_reach(std::span<const Value> values, std::int64_t plus, const Term& target,
                 Search& s) const;
  std::optional<std::int64_t> least(Term x, Search& s) const;
  std::optional<std::int64_t> min_result(Value v, Search& s) const;
  std::optional<std::int64_t> most(Value v, int depth = 0) const;

  const Kernel& k_;
  Edges most_, least_;
  std::unordered_map<OpId, std::uint32_t> order_;
  bool are_indices_wide_ = false;
};

}  // namespace tegula::ir
