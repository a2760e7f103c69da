// Tiles of ragged rows: the segment of a tile's number is found by binary search.
#include "tegula/segments.h"

#include <bit>

#include "dsl/elementwise.h"
#include "tegula/math.h"
#include "tegula/memory.h"
#include "tegula/tile_ops.h"

namespace tegula {
namespace {

/// Returns an entry of a table. An index after the end gives 0, which is not used.
Tile entry(const In<i32, 1>& table, const Tile& i) { return fill_absent(table(i), 0); }

Tile as_index(const Tile& i) { return slice(i, 1).first(); }

}  // namespace

Segments::Segments(const In<i32, 1>& offsets, const Arg& rows)
    : offsets_(offsets), loc_(rows.loc()) {
  Tracer& t = Tracer::at(loc_, "segments");
  extents_.push_back(dsl::index_bound(t, "segments", rows));
}

Segments segments(const In<i32, 1>& offsets, const Arg& rows) { return Segments(offsets, rows); }

Segments Segments::by(const Arg& extent) const {
  Tracer& t = Tracer::at(extent.loc(), "segments");
  Segments more = *this;
  more.extents_.push_back(dsl::index_bound(t, "segments", extent));
  return more;
}

Segments Segments::numbered(const In<i32, 1>& first_tiles) const {
  Segments counted = *this;
  counted.first_tiles_ = first_tiles;
  return counted;
}

Tile Segments::count() const { return offsets_.dim(0) - 1; }

/// Returns the maximum number of tiles for any division of the rows; none without segments.
Tile Segments::tile_count(std::int64_t block) const {
  Tracer& t = Tracer::at(loc_, "segments");
  const Tracer::Pin pin(t, loc_);
  const Tile any = max(0, min(count(), Tile(1)));
  Tile most = extents_[0] / block + count();
  // Each counted tile has at least one row.
  if (first_tiles_) most = min(extents_[0], most);
  return cast<i32>(most * any);
}

/// Returns the number of a segment's first tile. Without precomputed numbers, the distance to the
/// next segment's first tile is at least the number of this segment's tiles, because all of these
/// but the last are full.
Tile Segments::first_tile(const Tile& segment, std::int64_t block) const {
  if (first_tiles_) return entry(*first_tiles_, segment);
  return entry(offsets_, segment) / block + segment;
}

Segments::Place Segments::at(const Tile& number, std::int64_t block) const {
  Tracer& t = Tracer::at(loc_, "segments");
  const Tracer::Pin pin(t, loc_);
  // Find the last segment whose first tile has this number or a smaller one.
  const Tile segments = count();
  const auto most = static_cast<std::uint64_t>(t.specialise(t.position(offsets_.param_), 0, false));
  Tile found = full<i32>(0);
  for (std::uint64_t step = std::bit_ceil(most) / 2; step > 0; step /= 2) {
    const Tile next = found + static_cast<int>(step);
    found = where(next < segments && first_tile(next, block) <= number, next, found);
  }
  // No number is less than that of its segment's first tile. The clamp shows this to the checker of
  // rings, which does not model memory.
  const Tile tile = max(0, number - first_tile(found, block)), begin = entry(offsets_, found),
             end = as_index(entry(offsets_, found + 1));
  assume(found >= 0), assume(found < segments);
  assume(begin >= 0), assume(begin <= end), assume(end <= extents_[0]);
  return {as_index(found), as_index(begin) + as_index(tile) * block, end};
}

}  // namespace tegula
