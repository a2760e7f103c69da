#pragma once
// Accesses to boxes of views by load_view, store_view, atomic_view, copy_async and copy_tma. Only
// this file knows the positions of their operands.
#include <vector>

#include "ir/builder.h"

namespace tegula::ir {

/// How an access selects elements along one dimension of its view.
struct AccessAxis {
  enum class Kind : std::uint8_t { Box, Scalar, IndexTile };

  Value offset;  ///< the first element of a box, a scalar, or an index tile
  Value limit;   ///< elements from it on are outside; none: only the view ends the box
  Kind kind = Kind::Scalar;
  bool in_bounds = false;   ///< proved: no guard is needed
  int tile_dim = -1;        ///< dimension of the tile that runs along the axis; -1: none
  std::int64_t extent = 1;  ///< elements of the tile along the axis

  bool is_gathered() const { return kind == Kind::IndexTile; }
};

struct BoxAccess {
  Value view;
  Value stored;               ///< tile or scalar of a store_view or atomic_view
  std::vector<Value> target;  ///< of a copy: shared tile, slot, and channel of a copy_tma
  Value multicast;  ///< of a copy_tma: true where both CTAs of the cluster copy the box, or none
  Type tile;        ///< type of the elements; of a copy, the shared tile with its slots
  Ints along;       ///< view dimension of each tile dimension; the same as the axes' tile_dim
  std::vector<AccessAxis> axes;  ///< one per view dimension
  Value rows;  ///< of a copy_tma by boxes of pages: number of rows of the tile that exist, or none
  /// Offsets of the boxes after the first one. Boxes fill equal parts of the tile's first
  /// dimension.
  std::vector<std::vector<Value>> next_boxes;
  std::int64_t divisor = 0;  ///< known divisor of the offset along stride 1; 0: not analyzed

  std::size_t boxes() const { return 1 + next_boxes.size(); }
  /// Returns box `i` of the access, with its offsets and its part of the tile.
  BoxAccess box(std::size_t i) const;
  bool has_limits() const { return !axes.empty() && axes[0].limit; }
  /// Returns the tile dimension along which index tiles run: that of the first gathered view
  /// dimension, which all index tiles share; -1 if no dimension is gathered.
  int gathered_dim() const;
  AccessAxis& along_dim(int tile_dim) {
    return axes[static_cast<std::size_t>(along[static_cast<std::size_t>(tile_dim)])];
  }
  const AccessAxis& along_dim(int tile_dim) const {
    return axes[static_cast<std::size_t>(along[static_cast<std::size_t>(tile_dim)])];
  }
};

bool is_access(Opcode op);

/// Returns what is wrong with the operands of an access for the verifier; empty if nothing is.
std::string_view why_not_access(const Kernel& k, const OpData& op);

/// Return one operand of an access: its view, the value that a store_view or atomic_view writes,
/// and the shared tile with its slots that a copy fills.
Value accessed_view(const OpData& op);
Value stored_value(const OpData& op);
Value filled_tile(const OpData& copy);

/// Returns the access of a load_view, store_view, atomic_view, copy_async or copy_tma.
BoxAccess access_of(const Kernel& k, const OpData& op);
/// Returns the access of a new op: the box of a view from the offsets on.
BoxAccess box_of(Value view, std::span<const Value> offsets, std::span<const std::int64_t> along,
                 Value stored = {});

std::vector<Value> operands_of(const BoxAccess& access);
/// Replaces the operands and the attributes that describe the access.
void set_access(OpData& op, const BoxAccess& access);
/// Creates an op with these other attributes. `result` is the type of the result, if it has one.
OpId create_access(Builder& b, Opcode opcode, const BoxAccess& access, AttrList attrs,
                   Type result = {});

/// Returns the layout of the index tiles of a box with layout `box`: the thread that holds an
/// element of the box also holds its index.
const LinearLayout* index_tile_layout(const LinearLayout& box, int gathered_dim);

}  // namespace tegula::ir
