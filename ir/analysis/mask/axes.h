#pragma once
// The axis that each part of a mask depends on, if any. A part of one axis can be computed exactly,
// element by element, and folded over a block; only parts of both axes need intervals.
#include <vector>

#include "ir/analysis/mask/expr.h"

namespace tegula::ir {

enum class MaskAxis : std::uint8_t {
  Uniform,  ///< one value for a batch entry and head
  Query,
  Key,
  Both,
  Unknown,  ///< cannot be computed in a kernel of ours
};

/// The largest parts of a mask that depend on one axis, or on none, are its leaves.
struct MaskAxisDependence {
  /// `is_scalar`: which slots of the expression's numbers a kernel can read. `heads_are_rows`: a
  /// tile's rows are of several heads, so that a head is one side with a query's position.
  MaskAxisDependence(const MaskExpr& expr, const std::vector<bool>& is_scalar,
                     bool heads_are_rows = false);

  MaskAxis of(MaskNodeId id) const { return side[id]; }
  const std::vector<MaskNodeId>& leaves(MaskAxis s) const {
    return s == MaskAxis::Query ? query_leaves : s == MaskAxis::Key ? key_leaves : launch_leaves;
  }
  bool on_batch() const { return expr.depends(expr.root, kOnBatch); }
  bool on_head() const { return expr.depends(expr.root, kOnHead); }
  /// Pieces into which blocks are divided along an axis on which one of its leaves falls: 1 or 2.
  int pieces(MaskAxis s) const;
  /// True if the keys' leaves are `kv` alone, whose bounds need no looking up.
  bool is_plain_key() const;

  const MaskExpr& expr;
  std::vector<MaskAxis> side;  ///< by node
  std::vector<bool>
      is_above;  ///< nodes that depend on both axes, or are unknown, and belong to the mask
  std::vector<MaskNodeId> query_leaves, key_leaves, launch_leaves;

 private:
  void visit(MaskNodeId id);
  bool may_fall(MaskNodeId id) const;
};

}  // namespace tegula::ir
