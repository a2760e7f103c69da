#pragma once
// Facts about the signs and magnitudes of floats.
#include <unordered_set>

#include "ir/kernel.h"

namespace tegula::ir {

/// Derives facts from constants, `assume` ops and differences from maxima. A result of false means
/// unknown.
class FloatFacts {
 public:
  /// Collects the facts that `assume` ops state.
  explicit FloatFacts(const Kernel& k);

  /// Returns true for a scalar that is greater than 0 and finite. Products of such scalars are
  /// assumed not to underflow.
  bool is_positive(Value v) const;
  /// Returns true for a scalar or tile that contains no infinity. It may contain NaN.
  bool is_never_infinite(Value v) const;

 private:
  bool is_at_most_zero(Value v) const;
  bool is_at_least(Value v, Value least) const;

  const Kernel& k_;
  std::unordered_set<Value> positive_;
};

}  // namespace tegula::ir
