#pragma once
// Tiles [m, n] that are functions of the column's position less the row's: all elements of a
// diagonal are the same, so that there are m + n - 1 different ones at most (Toeplitz matrices).
#include <unordered_map>

#include "ir/analysis/affine_index.h"

namespace tegula::ir {

enum class ToeplitzKind : std::uint8_t {
  none,
  uniform,   ///< one number
  distance,  ///< an integer that changes by one from a diagonal to the next
  ramp,      ///< a distance as a float: evenly spaced columns and rows, reassociable, added
  computed,  ///< elementwise, loads included, from such ones of the same region
};

/// step * (column - row) + the sum of what the first column and the first row begin with.
struct RampSum {
  Value step, column, row;
};

class ToeplitzAnalysis {
 public:
  explicit ToeplitzAnalysis(const Kernel& k) : k_(k), indices_(k) {}

  ToeplitzKind of(Value v);
  /// Index of a value: of a `distance` it is factor[1] * (column - row) + the first element. Of a
  /// `uniform` value, if it is a sum of integers; else none.
  const std::optional<AffineIndex>& index(Value v) { return indices_.of(v); }
  /// The sum of ramps of a value that is `ramp`.
  std::optional<RampSum> ramps(Value v) const;
  /// Whether computing `v`, which is `computed`, takes a load or a special function: more than
  /// passing the result from one thread to another.
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
