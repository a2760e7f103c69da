#pragma once
// Interval analysis of a mask with numbers that a kernel records: for bounds that only the launch
// knows. The rules are those of the host (ir/analysis/mask/interval_rules).
#include <functional>
#include <optional>

#include "ir/analysis/mask/axes.h"
#include "ir/analysis/mask/blocks.h"
#include "ir/analysis/mask/interval_rules.h"
#include "tegula/tegula.h"

namespace tegula {

using TileBounds = ir::Enclosure<Tile>;
/// i1: true everywhere (`lo`), true somewhere (`hi`), unless it is surely false.
using ThreeValued = ir::Enclosure<Tile>;

/// An integer over a block: bounds of i32, both of them within `range` whatever the launch is.
struct RecordedInterval {
  TileBounds bounds;
  ir::Interval range;
  bool is_point = false;  ///< both bounds are one value
};

/// Knowledge about a node; absent for an integer that may be anything.
struct AbstractValue {
  std::optional<RecordedInterval> number;
  std::optional<ThreeValued> truth;
};

/// Records the evaluation of the parts of a mask that join both axes. Scalars and tiles may be
/// mixed: the result is for each element of the tiles.
class MaskIntervals {
 public:
  /// Gives what is known of a node that depends on one axis, or on none.
  using Leaf = std::function<AbstractValue(ir::MaskNodeId)>;
  explicit MaskIntervals(const ir::MaskAxisDependence& sides);

  ThreeValued run(const Leaf& leaf) const;
  /// Knowledge about a leaf, from its least and largest value (i32; a condition: 0 and 1). Absent
  /// where these do not fit.
  AbstractValue known(ir::MaskNodeId id, const TileBounds& bounds, bool is_point) const;
  /// True if no operation above the leaves, nor in them, may leave its type: then the mask means
  /// the same in wider types.
  bool has_no_overflow() const;

 private:
  const ir::MaskAxisDependence& sides_;
  ir::MaskBlocks whole_domain_;  ///< what holds at all positions, for all launches
};

}  // namespace tegula
