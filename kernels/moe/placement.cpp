#include "kernels/moe/placement.h"

#include <array>

namespace tegula::kernels::experts {

Tile keys_of(const PlacementShape& shape, const Tile& ids) {
  const Tile is_expert = ids >= 0 && ids < shape.experts;
  const Tile key = shape.by_slot ? ids + arange(shape.k)(none, all) * shape.experts : ids;
  return ravel(where(is_expert, key, -1));
}

Tile PlacementShape::sizes(const Tile& claims, const Tile& capacity) const {
  if (!has_capacity) return claims;
  const Tile bounded = min(claims, capacity);
  if (shared == 0) return bounded;
  return where(arange(static_cast<int>(claims.shape()[0])) < routed(), bounded, claims);
}

Tile PlacementShape::has_room(const Tile& expert, const Tile& place, const Tile& capacity) const {
  const Tile is_below = place < capacity;
  return shared == 0 ? is_below : is_below || expert >= routed();
}

void PlacementSegments::write(const Tile& sizes) const {
  const auto experts = static_cast<int>(sizes.shape()[0]);
  const Tile behind = arange(experts, 1);
  offsets(0) = 0;
  offsets(behind) = cumsum(sizes, 0);
  // One scan for the tiles of all tables.
  const Tile table = arange(kTileTables), tiles = cdiv(sizes(none, all), heights()(all, none));
  first_tiles(table, 0) = zeros<i32>(kTileTables);
  first_tiles(broadcast(table(all, none), {kTileTables, experts}),
              broadcast(behind(none, all), {kTileTables, experts})) = cumsum(tiles, 1);
}

Tile PlacementSegments::heights() const {
  const Tile table = arange(kTileTables);
  const Tile of_forward = where(table == kUpTable, up_rows, down_rows),
             of_backward = where(table == 0, kGradientTileRows[0], kGradientTileRows[1]);
  return where(table < kUpTable, of_backward, of_forward);
}

void Placement::count(const Tile& tile, const Tile& ids, const Tile& arrivals) const {
  tables_.counts(tile, whole(shape_.bins())) =
      key_ranks(keys_of(shape_, ids), shape_.bins()).counts;
  const Tile group = tile / kTilesPerGroup, groups = cdiv(tiles(), kTilesPerGroup);
  const Tile members = min(Tile(kTilesPerGroup), tiles() - group * kTilesPerGroup);
  if_(arrive_and_test_last(arrivals + (group + 1), members), [&] {
    sum_group(group);
    if_(arrive_and_test_last(arrivals, groups), [&] { sum_groups(groups); });
  });
}

/// Replaces rows [first, end) of a table of counts, at most kTilesPerGroup, by the exclusive sums
/// of the rows, starting from `run`. Returns the total.
Tile Placement::running_sums(const InOut<i32, 2>& table, const Tile& first, const Tile& end,
                             Tile run) const {
  const Subscript bins = whole(shape_.bins());
  // Issues all loads before the first sum is stored.
  std::array<Tile, kTilesPerGroup> rows, counts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Tile row = first + static_cast<int>(i);
    rows[i] = where(row < end, row, -1);
    counts[i] = fill_absent(table(rows[i], bins), 0);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    table(rows[i], bins) = run;
    run = run + counts[i];
  }
  return run;
}

void Placement::sum_group(const Tile& group) const {
  tables_.group_counts(group, whole(shape_.bins())) =
      running_sums(tables_.counts, group * kTilesPerGroup, tiles(), zeros<i32>(shape_.bins()));
}

void Placement::sum_groups(const Tile& groups) const {
  Tile kept = zeros<i32>(shape_.experts);
  const auto compete = [&](const Tile& number, const Tile& first, const Tile& end) {
    Tile run = zeros<i32>(shape_.bins());
    for (auto g : steps(first, end, kTilesPerGroup))
      run = running_sums(tables_.group_counts, cast<i32>(g.first()), end, run);
    if (shape_.by_slot) {
      const Tile slots = run.reshape({shape_.k, shape_.experts});
      tables_.bases(number, whole(shape_.bins())) = ravel(cumsum(slots, 0, {.exclusive = true}));
      run = sum(slots, 0);
    }
    if (shape_.group_tokens > 0) tables_.kept(number, whole(shape_.experts)) = kept;
    kept = kept + shape_.sizes(run, capacity_);
  };
  if (shape_.group_tokens == 0) {
    compete(Tile(0), Tile(0), groups);
  } else {
    const int each = shape_.groups_together();
    for (auto c : steps(tables_.kept.rows(), 1)) {
      const Tile number = cast<i32>(c.first()), first = number * each;
      compete(number, first, min(groups, first + each));
    }
  }
  segments_.write(kept);
}

void Placement::place(const Tile& tile, const Tile& ids, const PlacementRows& rows) const {
  const Index t = tokens(tile);
  const Tile key = keys_of(shape_, ids), ranks = key_ranks(key, shape_.bins()).ranks,
             is_placed = key >= 0;
  const Tile known = where(is_placed, key, 0);
  const Tile group = tile / kTilesPerGroup, expert = known % shape_.experts;
  Tile place = ranks + tables_.counts(tile, known) + tables_.group_counts(group, known);
  const bool is_grouped = shape_.group_tokens > 0;
  const Tile number = is_grouped ? group / shape_.groups_together() : Tile(0);
  if (shape_.by_slot) place = place + tables_.bases(number, known);
  const Tile is_kept =
      shape_.has_capacity ? is_placed && shape_.has_room(expert, place, capacity_) : is_placed;
  if (is_grouped) place = place + tables_.kept(number, expert);
  const Tile row = where(is_kept, segments_.offsets(expert) + place, -1);
  rows.row_of(t, whole(shape_.k)) = row.reshape({shape_.block, shape_.k});
  const int choices = shape_.block * shape_.k;
  rows.slot_of(row) = slice(tile * choices, choices).indices();
}

}  // namespace tegula::kernels::experts
