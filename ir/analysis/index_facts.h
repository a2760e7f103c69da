#pragma once
// Facts about index values: divisors, and boxes that lie inside their view. Reads only.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/analysis/facts.h"
#include "ir/kernel.h"

namespace tegula::ir {

/// The integer value as a constant, if it is one.
std::optional<std::int64_t> constant_value(const Kernel& k, Value v);

/// Whether every number of one integer type is one of the other.
bool holds_all_of(DType type, DType of);

/// The constant 0, of whatever type.
bool is_zero(const Kernel& k, Value v);

/// The largest known power-of-two-or-other factor of an integer value; 0 for the constant 0, which
/// everything divides.
std::int64_t divisor_of(const Kernel& k, Value v);

/// The two values come from equal pure ops on the same values.
bool is_same(const Kernel& k, Value a, Value b, int depth = 0);

/// Whether the value is the same in all CTAs of a cluster.
bool is_cluster_uniform(const Kernel& k, Value v, int depth = 0);

class IndexFacts {
 public:
  /// Collects the facts that `assume` ops state.
  explicit IndexFacts(const Kernel& k);

  /// True if the integer value is surely >= 0 wherever `at` is executed; without `at` everywhere.
  bool is_non_negative(Value v, OpId at = {}) const { return facts_.is_non_negative(v, at); }
  /// Upper bound of a scalar integer that is surely >= 0 and whose computation cannot have wrapped;
  /// none for others. Stricter than is_non_negative, which follows sums and products of any size:
  /// for rewrites that must not depend on the meaning of numbers.
  std::optional<std::int64_t> upper_bound(Value v) const;
  /// True if some `assume` says a < b that is reached wherever `at` is: it stands in a region
  /// around `at`, not in a loop or branch beside it.
  bool is_less(Value a, Value b, OpId at) const;
  /// True if offset >= 0 and offset + extent <= the view's dimension for every execution of `at`.
  bool is_inside(Value offset, std::int64_t extent, Value view, int axis, OpId at) const {
    return facts_.is_non_negative(offset, at) && facts_.ends_inside(offset, extent, view, axis, at);
  }
  const Facts& facts() const { return facts_; }

 private:
  void collect(OpId assume, Value condition);

  class UpperBound;

  struct Less {
    Value than;
    RegionId where;  ///< the `assume` stands in it
  };

  const Kernel& k_;
  Facts facts_;
  std::unordered_map<Value, std::vector<Less>> less_than_;
  std::unordered_set<Value> at_least_zero_;  ///< as an `assume` says wherever they are computed
};

}  // namespace tegula::ir
