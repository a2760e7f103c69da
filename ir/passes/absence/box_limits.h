#pragma once
// Limits of boxes: the operands after the offsets of a load_view or store_view that end the box
// before its view ends.
#include <span>
#include <vector>

#include "ir/access.h"
#include "ir/passes/absence/absence.h"
#include "ir/uses.h"

namespace tegula::ir {

class BoxLimits {
 public:
  BoxLimits(Kernel& k, Absence& absence) : k_(k), absence_(absence) {}

  /// Returns the access of a box with the extents of its view as limits.
  BoxAccess with_extents(OpId box);
  /// Narrows the limits and adds them to the box if the bounds of its tile exclude more than the
  /// view. Returns true if they do.
  bool append(OpId box, BoxAccess limited, std::span<const PresenceBound> bounds);
  /// Ends the box of a load where crops end its tile, if only these read the tile and their result
  /// `v` is an operand of dots: `op` is the dot, or the fill_absent of `v` by 0. Returns false if
  /// limits cannot express the crops, or TMA cannot apply them: it ends one dimension, not the
  /// contiguous one, of boxes that do not begin before the view.
  bool end_load(OpId op, Value v);
  /// Returns true if the view of the box ends at the bound or before it.
  bool adds_nothing(OpId box, const PresenceBound& bound, Value offset, int view_dim) const;
  /// Returns true if the bound requires a mask. A limit only cuts off the end, not elements before
  /// the view or arbitrary ones.
  bool needs_mask(OpId box, const BoxAccess& access, const PresenceBound& bound) const;

 private:
  bool is_operand_of_dots(const Uses& uses, OpId op) const;
  bool can_end(OpId load, std::span<const PresenceBound> bounds) const;
  /// Returns true if only pure ops and other loads are between the load and the later op.
  bool may_move(OpId load, OpId op) const;
  /// Returns the bound as a limit in the view.
  Value limit_in_view(Builder& b, const PresenceBound& bound, const AccessAxis& axis);

  Kernel& k_;
  Absence& absence_;
};

}  // namespace tegula::ir
