#include "kernels/moe/placement.h"

namespace tegula::experts {

Tile Placement::keys(const Tile& ids) const {
  const Tile is_expert = ids >= 0 && ids < shape_.experts;
  const Tile key = shape_.by_slot ? ids + arange(shape_.k)(none, all) * shape_.experts : ids;
  return ravel(where(is_expert, key, -1));
}

void Placement::sum_group(const Tile& group) const {
  const Index mine = slice(group * kTilesPerGroup, kTilesPerGroup);
  const Tile counts = tables_.counts(mine, all);  // rows behind the last tile are absent
  tables_.group_counts(group, all) = sum(counts, 0);
  tables_.counts(mine, all) = cumsum(counts, 0, {.exclusive = true});
}

void Placement::sum_groups(const Tile& groups) const {
  Tile run = zeros<i32>(shape_.bins());
  for (auto g : steps(groups, 1)) {
    const Tile counts = tables_.group_counts(g, all);
    tables_.group_counts(g, all) = run;
    run = run + counts;
  }
  if (shape_.by_slot) {
    const Tile slots = run.reshape({shape_.k, shape_.experts});
    tables_.bases(all) = ravel(cumsum(slots, 0, {.exclusive = true}));
    run = sum(slots, 0);
  } else {
    tables_.bases(all) = zeros<i32>(shape_.bins());
  }
  write_segments(shape_.capacity < 0 ? run : min(run, Tile(shape_.capacity)));
}

void Placement::write_segments(const Tile& sizes) const {
  const Index behind = slice(1, shape_.experts);
  tables_.offsets(0) = 0, tables_.offsets(behind) = cumsum(sizes, 0);
  for (int rows : kTileRows) {
    const int at = tile_rows_index(rows);
    tables_.first_tiles(at, 0) = 0;
    tables_.first_tiles(at, behind) = cumsum(cdiv(sizes, rows), 0);
  }
}

void Placement::place(const Tile& tile, const Tile& ids, const PlacementRows& rows) const {
  const Index t = tokens(tile);
  const Tile key = keys(ids), ranks = key_ranks(key, shape_.bins()).ranks, is_placed = key >= 0;
  const Tile known = where(is_placed, key, 0);
  const Tile place = ranks + tables_.counts(tile, known) +
                     tables_.group_counts(tile / kTilesPerGroup, known) + tables_.bases(known);
  const Tile is_kept = shape_.capacity < 0 ? is_placed : is_placed && place < shape_.capacity;
  const Tile row = where(is_kept, tables_.offsets(known % shape_.experts) + place, -1);
  rows.row_of(t, all) = row.reshape({shape_.block, shape_.k});
  const int choices = shape_.block * shape_.k;
  rows.slot_of(row) = slice(tile * choices, choices).indices();
}

}  // namespace tegula::experts
