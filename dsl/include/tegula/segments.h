#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tegula/value.h"
#include "tegula/view.h"

/// Ragged rows whose offsets are in device memory, as the space of a grid.
namespace tegula {

namespace detail {
class GridLoop;
}  // namespace detail

/// Ragged rows: segment s is the rows [offsets[s], offsets[s + 1]) of tensors that contain all
/// segments consecutively: tokens of experts, packed sequences, jagged batches. The host knows the
/// maximum number of segments, but not their lengths. `grid(segments(offsets, A.rows()), 128)`
/// gives the index of a segment and an index of 128 of its rows, which ends with the segment
/// (Index::until); segments without rows have no tile.
class Segments {
 public:
  /// `offsets` [segments + 1] are ascending; `cpu` and `sim` check this. No segment ends beyond
  /// `rows`, which the host computes (an extent) and which determines the number of programs.
  Segments(const In<i32, 1>& offsets, const Arg& rows);
  /// Adds a dimension that all segments have: columns of a product, heads.
  Segments by(const Arg& extent) const;
  /// Uses tile numbers that were computed before: `first_tiles` [segments + 1] are the exclusive
  /// sums of the segments' cdiv(rows, block). Without them, tile numbers have gaps between
  /// segments, at most one for each.
  Segments numbered(const In<i32, 1>& first_tiles) const;

 private:
  friend class detail::GridLoop;
  struct Place {
    Tile segment, first, end;
  };
  Tile count() const;
  Tile tile_count(std::int64_t block) const;
  Tile first_tile(const Tile& segment, std::int64_t block) const;
  Place at(const Tile& number, std::int64_t block) const;

  In<i32, 1> offsets_;
  std::optional<In<i32, 1>> first_tiles_;
  std::vector<Tile> extents_;
  Loc loc_;
};
Segments segments(const In<i32, 1>& offsets, const Arg& rows);

}  // namespace tegula
