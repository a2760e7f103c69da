#pragma once
// Tiles [m, n] that are functions of the column position minus the row position. All elements of a
// diagonal are equal, so there are at most m + n - 1 distinct ones (Toeplitz matrices).
#include <unordered_map>

#include "ir/analysis/affine_index.h"

namespace tegula::ir {

enum class ToeplitzKind : std::uint8_t {
  none,
  uniform,   ///< one number
  distance,  ///< an integer that changes by one from one diagonal to the next
  ramp,      ///< a distance as a float: evenly spaced columns and rows, reassociable, added
  computed,  ///< elementwise, including loads, from operands of these kinds in the same region
};

/// step * (column - row) + the start values of the column ramp and the row ramp.
struct RampSum {
  Value step, column, row;
};

class ToeplitzAnalysis {
 public:
  explicit ToeplitzAnalysis(const Kernel& k) : k_(k), indices_(k) {}

  ToeplitzKind of(Value v);
  /// Returns the affine index of a value. A `distance` is factor[1] * (column - row) + the first
  /// element. A `uniform` value has one if it is a sum of integers.
  const std::optional<AffineIndex>& index(Value v) { return indices_.of(v); }
  /// Returns the ramps whose sum is `v`, a value of kind `ramp`.
  std::optional<RampSum> ramps(Value v) const;
  /// Returns true if computing `v`, a value of kind `computed`, requires a load or a special
  /// function, which cost more than passing the result from one thread to another.
  bool is_costly(Value v);

 private:
  ToeplitzKind find(Value v);
  bool may_be_computed(const OpData& d) const;

  const Kernel& k_;
  AffineIndices indices_;
  std::unordered_map<Value, ToeplitzKind> known_;
  std::unordered_map<Value, bool> costly_;
};

}  // namespace tegula::ir
