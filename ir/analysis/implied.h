#pragma once
// Derives bounds of positions from a condition on the elements of a tile. Does not modify the
// kernel.
#include "ir/analysis/affine_index.h"
#include "ir/analysis/facts.h"

namespace tegula::ir {

class Implications {
 public:
  Implications(const Kernel& k, const Facts& facts) : k_(k), facts_(facts), indices_(k) {}

  /// Returns true if limit - offset - i > 0 for each element i along `dim` at which the i1 tile
  /// `condition` equals `when`.
  bool is_below(Value condition, bool when, int dim, Value offset, Value limit, OpId point);
  /// Returns true if offset + i >= 0 for each element i at which `condition` equals `when`.
  bool is_not_negative(Value condition, bool when, int dim, Value offset, OpId point);

 private:
  bool implies(Value condition, bool when, const AffineIndex& wanted, OpId point, int depth);
  bool compares(const OpData& cmp, bool when, const AffineIndex& wanted, OpId point);
  bool follows(const AffineIndex& known, const AffineIndex& wanted, OpId point) const;
  std::optional<AffineIndex> position(Value v);
  /// Returns offset + i for the elements i along `dim` of the condition.
  AffineIndex element(Value condition, int dim, Value offset) const;

  const Kernel& k_;
  const Facts& facts_;
  AffineIndices indices_;
};

}  // namespace tegula::ir
