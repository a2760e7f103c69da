#pragma once
// Which axis each part of a mask depends on, if any. What depends on one axis alone can be computed
// exactly, element by element, and folded over a block; only what joins both needs intervals.
#include <vector>

#include "ir/analysis/mask/expr.h"

namespace tegula::ir {

enum class MaskSide : std::uint8_t {
  Launch,  ///< one value for a batch entry and head
  Query,
  Key,
  Both,
  Unknown,  ///< cannot be computed in a kernel of ours
};

/// The greatest parts of a mask that depend on one axis, or on none, are its leaves.
struct MaskSides {
  /// `is_scalar`: which slots of the expression's numbers a kernel can read. `heads_are_rows`: a
  /// tile's rows are of several heads, so that a head is one side with a query's position.
  MaskSides(const MaskExpr& expr, const std::vector<bool>& is_scalar, bool heads_are_rows = false);

  MaskSide of(MaskNodeId id) const { return side[id]; }
  const std::vector<MaskNodeId>& leaves(MaskSide s) const {
    return s == MaskSide::Query ? query_leaves : s == MaskSide::Key ? key_leaves : launch_leaves;
  }
  bool on_batch() const { return expr.depends(expr.root, kOnBatch); }
  bool on_head() const { return expr.depends(expr.root, kOnHead); }
  /// In how many pieces blocks are cut along an axis where one of its leaves falls: 1 or 2.
  int pieces(MaskSide s) const;
  /// True if the keys' leaves are `kv` alone, whose bounds need no looking up.
  bool is_plain_key() const;

  const MaskExpr& expr;
  std::vector<MaskSide> side;  ///< by node
  std::vector<bool> is_above;  ///< what joins both axes, or is unknown, and is part of the mask
  std::vector<MaskNodeId> query_leaves, key_leaves, launch_leaves;

 private:
  void visit(MaskNodeId id);
  bool may_fall(MaskNodeId id) const;
};

}  // namespace tegula::ir
