#pragma once
// Rows of experts as segments, and the tiles that cover them.
#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"

namespace tegula::kernels::experts {

/// Returns a subscript for a whole dimension of exactly this extent. (`all` is padded to a power of
/// two, and a slice of one element drops the dimension.)
inline Subscript whole(int extent) {
  return extent == 1 ? Subscript(all) : Subscript(slice(0, extent));
}

/// Tile heights of the backward pass, for all layers: the first rows of the table of first tiles.
/// The last two rows are for the up and down GEMMs of the forward pass.
inline constexpr int kGradientTileRows[] = {64, 128};
inline constexpr int kTileTables = 4;
/// Returns the row of the table of first tiles for backward tiles of `rows` rows.
constexpr int gradient_table(int rows) { return rows == kGradientTileRows[0] ? 0 : 1; }
inline constexpr int kUpTable = 2, kDownTable = 3;

/// Segments of the experts' rows, both [experts + 1]: `offsets` ascends from 0; `first_tiles` is
/// the number of tiles before each expert's.
struct SegmentTables {
  In<i32, 1> offsets, first_tiles;
};

/// Returns the grid of tiles over the experts' rows and `columns`.
inline auto expert_grid(const SegmentTables& tables, const Tile& rows, const Tile& columns,
                        const ExpertTileConfig& v) {
  return grid(segments(tables.offsets, rows).by(columns).numbered(tables.first_tiles), v.bm, v.bn,
              group_m(v.group_m));
}

/// Returns the plan fields that the tiles prefer.
inline PlanPatch plan_of(const ExpertTileConfig& v) {
  return v.multicast ? PlanPatch{.multicast = true} : PlanPatch{};
}

}  // namespace tegula::kernels::experts
