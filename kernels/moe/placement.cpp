#include "kernels/moe/placement.h"

namespace tegula::experts {

Tile Placement::keys(const Tile& ids) const {
  const Tile is_expert = ids >= 0 && ids < shape_.experts;
  const Tile key = shape_.by_slot ? ids + arange(shape_.k)(none, all) * shape_.experts : ids;
  return ravel(where(is_expert, key, -1));
}

void Placement::sum_group(const Tile& group) const {
  const Index mine = slice(group * kTilesPerGroup, kTilesPerGroup);
  const Subscript bins = whole(shape_.bins());
  const Tile counts = tables_.counts(mine, bins);  // rows behind the last tile are absent
  tables_.group_counts(group, bins) = sum(counts, 0);
  tables_.counts(mine, bins) = cumsum(counts, 0, {.exclusive = true});
}

void Placement::sum_groups(const Tile& groups) const {
  const Subscript bins = whole(shape_.bins());
  Tile run = zeros<i32>(shape_.bins());
  for (auto g : steps(groups, 1)) {
    const Tile counts = tables_.group_counts(g, bins);
    tables_.group_counts(g, bins) = run;
    run = run + counts;
  }
  if (shape_.by_slot) {
    const Tile slots = run.reshape({shape_.k, shape_.experts});
    tables_.bases(bins) = ravel(cumsum(slots, 0, {.exclusive = true}));
    run = sum(slots, 0);
  } else {
    tables_.bases(bins) = zeros<i32>(shape_.bins());
  }
  write_segments(shape_.has_capacity ? min(run, capacity_) : run);
}

void Placement::write_segments(const Tile& sizes) const {
  const auto from_0 = [](const Tile& counts) { return cat({zeros<i32>(1), cumsum(counts, 0)}, 0); };
  const Index experts = slice(0, shape_.experts + 1);
  tables_.offsets(experts) = from_0(sizes);
  for (int rows : kTileRows)
    tables_.first_tiles(tile_rows_index(rows), experts) = from_0(cdiv(sizes, rows));
}

void Placement::place(const Tile& tile, const Tile& ids, const PlacementRows& rows) const {
  const Index t = tokens(tile);
  const Tile key = keys(ids), ranks = key_ranks(key, shape_.bins()).ranks, is_placed = key >= 0;
  const Tile known = where(is_placed, key, 0);
  const Tile place = ranks + tables_.counts(tile, known) +
                     tables_.group_counts(tile / kTilesPerGroup, known) + tables_.bases(known);
  const Tile is_kept = shape_.has_capacity ? is_placed && place < capacity_ : is_placed;
  const Tile row = where(is_kept, tables_.offsets(known % shape_.experts) + place, -1);
  rows.row_of(t, whole(shape_.k)) = row.reshape({shape_.block, shape_.k});
  const int choices = shape_.block * shape_.k;
  rows.slot_of(row) = slice(tile * choices, choices).indices();
}

}  // namespace tegula::experts
