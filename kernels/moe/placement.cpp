#include "kernels/moe/placement.h"

#include <array>
#include <bit>

namespace tegula::experts {

Tile Placement::keys(const Tile& ids) const {
  const Tile is_expert = ids >= 0 && ids < shape_.experts;
  const Tile key = shape_.by_slot ? ids + arange(shape_.k)(none, all) * shape_.experts : ids;
  return ravel(where(is_expert, key, -1));
}

void Placement::sum_group(const Tile& group) const {
  const Subscript bins = whole(shape_.bins());
  const Tile first = group * kTilesPerGroup;
  // All reads are under way before the first sum is stored.
  std::array<Tile, kTilesPerGroup> counts;
  for (int i = 0; i < kTilesPerGroup; ++i)
    counts[i] = fill_absent(tables_.counts(first + i, bins), 0);  // none behind the last tile
  Tile run = zeros<i32>(shape_.bins());
  for (int i = 0; i < kTilesPerGroup; ++i) {
    tables_.counts(first + i, bins) = run;
    run = run + counts[i];
  }
  tables_.group_counts(group, bins) = run;
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
  const Tile behind = arange(shape_.experts, 1);
  tables_.offsets(0) = 0;
  tables_.offsets(behind) = cumsum(sizes, 0);
  // One scan for tiles of every number of rows, which are the powers of two from 16 on.
  constexpr int kScans = std::bit_ceil(static_cast<unsigned>(kTileRowChoices)), kFirstShift = 4;
  static_assert(kTileRows[0] == 1 << kFirstShift);
  const Tile choice = arange(kScans), shift = (choice + kFirstShift)(all, none),
             tiles = (sizes(none, all) + ((1 << shift) - 1)) >> shift,
             place = where(choice < kTileRowChoices, choice, -1);  // others are dropped
  tables_.first_tiles(place, 0) = zeros<i32>(kScans);
  tables_.first_tiles(broadcast(place(all, none), {kScans, shape_.experts}),
                      broadcast(behind(none, all), {kScans, shape_.experts})) = cumsum(tiles, 1);
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
