#pragma once
// The axis that each part of a mask depends on, if any. A part that depends on one axis can be
// computed exactly, element by element, and folded over a block; only parts that depend on both
// axes need intervals.
#include <vector>

#include "ir/analysis/mask/expr.h"

namespace tegula::ir {

enum class MaskAxis : std::uint8_t {
  Uniform,  ///< one value per batch entry and head
  Query,
  Key,
  Both,
  Unknown,  ///< cannot be computed in a generated kernel
};

/// Axes that the nodes of a mask depend on. The leaves are the largest parts of the mask that
/// depend on one axis or on none.
struct MaskAxisDependence {
  /// `is_scalar`: slots of the expression's numbers that a kernel can read. `heads_are_rows`: the
  /// rows of a tile belong to several heads, so that the head is on the same axis as the query
  /// position.
  MaskAxisDependence(const MaskExpr& expr, const std::vector<bool>& is_scalar,
                     bool heads_are_rows = false);

  MaskAxis of(MaskNodeId id) const { return side[id]; }
  const std::vector<MaskNodeId>& leaves(MaskAxis s) const {
    return s == MaskAxis::Query ? query_leaves : s == MaskAxis::Key ? key_leaves : launch_leaves;
  }
  bool on_batch() const { return expr.depends(expr.root, kOnBatch); }
  bool on_head() const { return expr.depends(expr.root, kOnHead); }
  /// Returns the number of pieces (1 or 2) that blocks are divided into along an axis: 2 if one of
  /// the axis's leaves may decrease.
  int pieces(MaskAxis s) const;
  /// Returns true if the key axis has no leaf other than `kv`, whose bounds need no lookup.
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
