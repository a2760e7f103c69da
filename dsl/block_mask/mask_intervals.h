#pragma once
// Interval analysis of a mask inside of a kernel: what ir/analysis/mask/blocks does on the host,
// recorded as arithmetic of tiles, for bounds that only the launch knows.
#include <functional>
#include <optional>
#include <vector>

#include "dsl/block_mask/mask_axes.h"
#include "ir/analysis/mask/blocks.h"
#include "tegula/value.h"

namespace tegula {

/// An integer over a block: lo <= x <= hi (i32), both of them within `range` whatever the launch
/// is.
struct RecordedInterval {
  Tile lo, hi;
  ir::Interval range;
  bool is_point = false;  ///< lo and hi are one value
};

/// A condition over a block: true everywhere; true somewhere, unless it is surely false.
struct ThreeValued {
  Tile all, any;
};

/// Abstract value of a node; nothing for an integer that may be anything.
struct AbstractValue {
  std::optional<RecordedInterval> number;
  std::optional<ThreeValued> truth;
};

/// Records the evaluation of the parts of a mask that depend on both axes. Scalars and tiles may be
/// mixed: the result is for each element of the tiles.
class MaskIntervals {
 public:
  /// Gives what is known of a node that depends on one axis, or on none.
  using Leaf = std::function<AbstractValue(ir::MaskNodeId)>;
  explicit MaskIntervals(const MaskAxisDependence& sides);

  ThreeValued run(const Leaf& leaf);
  /// Abstract value of a leaf, from its smallest and largest value (i32; 0 and 1 of a condition).
  /// Nothing is known if these do not fit.
  AbstractValue known(ir::MaskNodeId id, const Tile& lo, const Tile& hi, bool is_point) const;
  /// Whether the smallest and largest value of a node fit an i32.
  bool fits(ir::MaskNodeId id) const;
  /// True if no operation above the leaves, nor in them, may leave its type: then the mask means
  /// the same in wider types.
  bool has_no_overflow() const;

 private:
  const MaskAxisDependence& sides_;
  ir::MaskBlocks whole_domain_;  ///< facts that hold at all positions, for all launches
};

}  // namespace tegula
