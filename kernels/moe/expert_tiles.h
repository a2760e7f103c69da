#pragma once
// Rows of experts as segments, and the tiles that cover them.
#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"

namespace tegula::experts {

/// All of a dimension with this very extent: `all` has a power of two, a slice of one element no
/// dimension.
inline Subscript whole(int extent) {
  return extent == 1 ? Subscript(all) : Subscript(slice(0, extent));
}

/// Rows of tiles of backward, whatever the layer: the first rows of the table of first tiles. The
/// last two are of the up and of the down product of forward.
inline constexpr int kGradientTileRows[] = {64, 128};
inline constexpr int kTileTables = 4;
/// The row of the table of first tiles for tiles of backward of `rows` rows.
constexpr int gradient_table(int rows) { return rows == kGradientTileRows[0] ? 0 : 1; }
inline constexpr int kUpTable = 2, kDownTable = 3;

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

/// The fields of the plan that tiles prefer.
inline PlanPatch plan_of(const ExpertTileConfig& v) {
  return v.multicast ? PlanPatch{.multicast = true} : PlanPatch{};
}

}  // namespace tegula::experts
