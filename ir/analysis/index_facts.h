#pragma once
// Facts about index values: divisors, and boxes that are inside their view. Does not modify the
// kernel.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/analysis/facts.h"
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns the integer value if it is a constant.
std::optional<std::int64_t> constant_value(const Kernel& k, Value v);

/// Returns true if `type` can represent every number of the integer type `of`.
bool holds_all_of(DType type, DType of);

/// Returns true for the constant 0 of any type.
bool is_zero(const Kernel& k, Value v);

/// Returns the largest known divisor of an integer value, or 0 for the constant 0, which every
/// number divides.
std::int64_t divisor_of(const Kernel& k, Value v);

/// Returns true if both values are computed by equal pure ops from the same values.
bool is_same(const Kernel& k, Value a, Value b, int depth = 0);

/// Returns true if the value is the same in all CTAs of a cluster.
bool is_cluster_uniform(const Kernel& k, Value v, int depth = 0);

class IndexFacts {
 public:
  /// Collects the facts that `assume` ops state.
  explicit IndexFacts(const Kernel& k);

  /// Returns true if the integer value is known to be >= 0 whenever `at` is executed, or everywhere
  /// if `at` is absent.
  bool is_non_negative(Value v, OpId at = {}) const { return facts_.is_non_negative(v, at); }
  /// Returns an upper bound of a scalar integer that is known to be >= 0 and whose computation
  /// cannot have wrapped; otherwise nothing. This is stricter than is_non_negative, which accepts
  /// sums and products of any size, and serves rewrites that must not rely on indices not wrapping.
  std::optional<std::int64_t> upper_bound(Value v) const;
  /// Returns true if some `assume` states a < b and its region encloses `at`. An `assume` in
  /// another loop or branch does not apply.
  bool is_less(Value a, Value b, OpId at) const;
  /// Returns true if offset >= 0 and offset + extent <= the view's dimension for every execution of
  /// `at`.
  bool is_inside(Value offset, std::int64_t extent, Value view, int axis, OpId at) const {
    return facts_.is_non_negative(offset, at) && facts_.ends_inside(offset, extent, view, axis, at);
  }
  const Facts& facts() const { return facts_; }

 private:
  void collect(OpId assume, Value condition);

  class UpperBound;

  struct Less {
    Value than;
    RegionId where;  ///< region that contains the `assume`
  };

  const Kernel& k_;
  Facts facts_;
  std::unordered_map<Value, std::vector<Less>> less_than_;
  std::unordered_set<Value> at_least_zero_;  ///< stated by an `assume` in their region
};

}  // namespace tegula::ir
