#pragma once
// The keys that a tile of queries sees, as arithmetic of the kernel itself: what mask_ranges
// computes on the host, for conditions whose ends are simple enough to be recomputed by every
// program.
#include <memory>
#include <optional>
#include <vector>

#include "ir/analysis/mask_formula.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"

namespace tegula {

/// A range that is absent says nothing: all keys are visible, none is seen by all rows.
struct MaskedKeys {
  std::optional<KvRange> visible;  ///< no row sees any other key; 0 <= lo <= hi
  std::optional<KvRange> full;     ///< all rows see these, as far as there are keys
  /// The same with gaps, where there may be some: no order, and one may overlap another.
  std::vector<KvRange> visible_parts, full_parts;
};

/// The closed form of a mask, for the kernel that is being traced.
class MaskBounds {
 public:
  /// Traces the mask on its own, over scalars. A mask that cannot be gives no ranges.
  explicit MaskBounds(const Mask& mask);

  /// Records the ranges for query rows [first, last]. Conditions that are not affine in q, or whose
  /// arithmetic may wrap around, are taken to be unknown.
  MaskedKeys record(const Tile& first, const Tile& last, const Tile& kv_length) const;

 private:
  std::optional<ir::MaskClosedForm> form_;
  std::vector<std::shared_ptr<detail::ScalarCell>> numbers_;  ///< by slot of the expression
};

}  // namespace tegula
