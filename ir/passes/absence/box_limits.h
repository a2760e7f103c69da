#pragma once
// Limits of boxes: the operands after the offsets of a load_view or store_view that end the box
// before its view ends.
#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/passes/absence/absence.h"
#include "ir/uses.h"

namespace tegula::ir {

class BoxLimits {
 public:
  BoxLimits(Kernel& k, Absence& absence) : k_(k), absence_(absence) {}

  /// Returns the extents of the view in the types of the box's offsets.
  std::vector<Value> extents(OpId box);
  /// Appends limits to the operands of a box, first its view's extents, if the bounds of its tile
  /// exclude more than the view. Returns true if it did.
  bool append(OpId box, std::vector<Value> limits, std::span<const PresenceBound> bounds,
              Type tile);
  /// Ends the box of a load where crops end its tile, if only these read the tile and their result
  /// `v` is an operand of dots: `op` is the dot, or the fill_absent of `v` by 0. Returns false if
  /// limits cannot express the crops, or TMA cannot apply them: it ends one dimension, not the
  /// contiguous one, of boxes that do not begin before the view.
  bool end_load(OpId op, Value v);
  /// Returns true if the view of the box ends at the bound or before it.
  bool adds_nothing(OpId box, const PresenceBound& bound, Value offset, int view_dim) const;
  /// Returns true if the bound requires a mask. A limit only cuts off the end, not elements before
  /// the view or arbitrary ones.
  bool needs_mask(OpId box, const PresenceBound& bound, const Ints& axes) const;

 private:
  bool is_operand_of_dots(const Uses& uses, OpId op) const;
  bool can_end(OpId load, std::span<const PresenceBound> bounds) const;
  /// Returns true if only pure ops and other loads are between the load and the later op.
  bool may_move(OpId load, OpId op) const;
  /// Returns the bound as a limit in the view; `extent` is that of the tile along the bound's
  /// dimension.
  Value limit_in_view(Builder& b, const PresenceBound& bound, Value offset, std::int64_t extent);
  Value offset_of(OpId box, std::size_t view_dim) const;
  void forget_inside(OpId box, std::int64_t view_dim);

  Kernel& k_;
  Absence& absence_;
};

}  // namespace tegula::ir
