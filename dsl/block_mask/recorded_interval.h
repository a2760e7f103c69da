#pragma once
// Interval analysis of a mask as code that a kernel executes, for bounds that are known only at
// launch. The rules are those of the host analysis (ir/analysis/mask/interval_rules).
#include <functional>
#include <optional>

#include "ir/analysis/mask/axes.h"
#include "ir/analysis/mask/blocks.h"
#include "ir/analysis/mask/interval_rules.h"
#include "tegula/tegula.h"

namespace tegula {

using TileBounds = ir::Enclosure<Tile>;
/// i1: `lo` is true if the condition is true everywhere, `hi` if it may be true somewhere.
using ThreeValued = ir::Enclosure<Tile>;

/// An integer over a block: bounds in i32, both of them within `range` for every launch.
struct RecordedInterval {
  TileBounds bounds;
  ir::Interval range;
  bool is_point = false;  ///< both bounds are the same value
};

/// Holds the facts about a node. An integer without `number` may have any value.
struct AbstractValue {
  std::optional<RecordedInterval> number;
  std::optional<ThreeValued> truth;
};

/// Records the evaluation of the parts of a mask that depend on both axes. Scalars and tiles may be
/// mixed: the result is per element of the tiles.
class MaskIntervals {
 public:
  /// Returns what is known about a node that depends on one axis, or on none.
  using Leaf = std::function<AbstractValue(ir::MaskNodeId)>;
  explicit MaskIntervals(const ir::MaskAxisDependence& sides);

  ThreeValued run(const Leaf& leaf) const;
  /// Returns what is known about a leaf, given its minimum and maximum as i32 (0 and 1 for a
  /// condition). Nothing is known if its values may not fit in i32.
  AbstractValue known(ir::MaskNodeId id, const TileBounds& bounds, bool is_point) const;
  /// Returns true if no operation of the mask can overflow. The mask then has the same values when
  /// it is computed in wider types.
  bool has_no_overflow() const;

 private:
  const ir::MaskAxisDependence& sides_;
  ir::MaskBlocks whole_domain_;  ///< facts that are true at all positions, for all launches
};

}  // namespace tegula
