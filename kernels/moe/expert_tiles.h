#pragma once
// Rows of experts as consecutive segments of a tensor, and the tiles that cover them.
#include <bit>

#include "tegula/tegula.h"

namespace tegula::experts {

/// All of a dimension with this very extent: `all` has a power of two, a slice of one element no
/// dimension.
inline Subscript whole(int extent) {
  return extent == 1 ? Subscript(all) : Subscript(slice(0, extent));
}

/// Rows of tiles whose numbers the routing prepares.
inline constexpr int kTileRows[] = {16, 32, 64, 128, 256};
inline constexpr int kTileRowChoices = 5;
/// The row of `first_tiles` for tiles of `rows` rows.
constexpr int tile_rows_index(int rows) {
  return std::countr_zero(static_cast<unsigned>(rows)) - std::countr_zero(16u);
}

/// Where experts' rows lie. `offsets` [experts + 1] ascends from 0; `first_tiles` [kTileRowChoices,
/// experts + 1] counts the tiles of the experts in front, for each of kTileRows. Both are read on
/// the device alone: a launch covers as many tiles as there could be.
struct Segments {
  In<i32, 1> offsets;
  In<i32, 2> first_tiles;
};

/// Tiles of `rows` rows, none of which spans two experts. Experts without rows have none.
class ExpertTiles {
 public:
  ExpertTiles(const Segments& segments, int rows)
      : segments_(segments), experts_(segments.offsets.static_dim(0) - 1), rows_(rows) {
    segments.first_tiles.static_dim(0), segments.first_tiles.static_dim(1);
  }

  struct Place {
    Tile expert;
    Index rows;
    Tile end;  ///< of the expert's rows
    /// `extent`, or 0 behind the last tile, where nothing is to be done.
    Tile of(const Tile& extent) const { return where(rows.first() < end, extent, 0); }
    /// Results without the rows of the next expert.
    Tile own(const Tile& results) const { return crop(results, 0, rows.first(), end); }
  };

  /// The most tiles that `total` rows can have.
  Tile bound(const Tile& total) const { return min(total, total / rows_ + experts_); }
  /// Tile `number`.
  Place at(const Tile& number) const;

 private:
  Tile first_tile(const Tile& expert) const {
    return fill_absent(segments_.first_tiles(tile_rows_index(rows_), expert), 0);
  }

  Segments segments_;
  int experts_, rows_;
};

}  // namespace tegula::experts
