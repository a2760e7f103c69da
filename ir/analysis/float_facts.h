#pragma once
// Facts about the signs and magnitudes of floats.
#include <unordered_set>

#include "ir/kernel.h"

namespace tegula::ir {

/// Facts that constants, `assume` ops and differences from maxima give. False says nothing.
class FloatFacts {
 public:
  /// Collects what `assume` ops state.
  explicit FloatFacts(const Kernel& k);

  /// A scalar greater than 0 and finite. Products of such do not underflow.
  bool is_positive(Value v) const;
  /// A scalar or a tile of numbers that are not infinite; NaN may be among them.
  bool is_never_infinite(Value v) const;

 private:
  bool is_at_most_zero(Value v) const;
  bool is_at_least(Value v, Value least) const;

  const Kernel& k_;
  std::unordered_set<Value> positive_;
};

}  // namespace tegula::ir
