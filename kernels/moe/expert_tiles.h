#pragma once
// Rows of experts as segments, and the tiles that cover them.
#include <bit>

#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"

namespace tegula::experts {

/// All of a dimension with this very extent: `all` has a power of two, a slice of one element no
/// dimension.
inline Subscript whole(int extent) {
  return extent == 1 ? Subscript(all) : Subscript(slice(0, extent));
}

/// Rows of tiles that the routing counts.
inline constexpr int kTileRows[] = {16, 32, 64, 128, 256};
inline constexpr int kTileRowChoices = 5;
/// The row of the table of first tiles for tiles of `rows` rows.
constexpr int tile_rows_index(int rows) {
  return std::countr_zero(static_cast<unsigned>(rows)) - std::countr_zero(16u);
}

/// Places of the experts' rows, both [experts + 1]: `offsets` ascends from 0; `first_tiles` counts
/// the tiles of the experts in front.
struct SegmentTables {
  In<i32, 1> offsets, first_tiles;
};

/// Tiles of the experts' rows and of `columns`.
inline auto expert_grid(const SegmentTables& tables, const Tile& rows, const Tile& columns,
                        const ExpertTileConfig& v) {
  return grid(segments(tables.offsets, rows).by(columns).numbered(tables.first_tiles), v.bm, v.bn,
              group_m(v.group_m));
}

}  // namespace tegula::experts
