// Tiles of ragged rows: the segment that a tile's number belongs to, found by halving.
#include "tegula/segments.h"

#include <bit>

#include "dsl/elementwise.h"
#include "tegula/math.h"
#include "tegula/memory.h"
#include "tegula/tile_ops.h"

namespace tegula {
namespace {

/// An entry of a table, which may be asked for behind its end; there it is 0 and does not count.
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

/// Tiles that the rows have at most, however they are divided; none without segments.
Tile Segments::tile_count(std::int64_t block) const {
  Tracer& t = Tracer::at(loc_, "segments");
  const Tracer::Pin pin(t, loc_);
  const Tile any = max(0, min(count(), Tile(1)));
  Tile most = extents_[0] / block + count();
  // Each tile that is counted has a row.
  if (first_tiles_) most = min(extents_[0], most);
  return cast<i32>(most * any);
}

/// Number of a segment's first tile. If nobody has counted: the next segment's is at least as many
/// further on as this one has tiles, since each of these but the last is full.
Tile Segments::first_tile(const Tile& segment, std::int64_t block) const {
  if (first_tiles_) return entry(*first_tiles_, segment);
  return entry(offsets_, segment) / block + segment;
}

Segments::Place Segments::at(const Tile& number, std::int64_t block) const {
  Tracer& t = Tracer::at(loc_, "segments");
  const Tracer::Pin pin(t, loc_);
  // The last segment whose first tile has this number or a smaller one.
  const Tile segments = count();
  const auto most = static_cast<std::uint64_t>(t.specialise(offsets_.param_, 0, false));
  Tile found = full<i32>(0);
  for (std::uint64_t step = std::bit_ceil(most) / 2; step > 0; step /= 2) {
    const Tile next = found + static_cast<int>(step);
    found = where(next < segments && first_tile(next, block) <= number, next, found);
  }
  // No number lies before its segment's; the checker of rings, which knows no memory, shall see a
  // tile, too.
  const Tile tile = max(0, number - first_tile(found, block)), begin = entry(offsets_, found),
             end = as_index(entry(offsets_, found + 1));
  assume(found >= 0), assume(found < segments);
  assume(begin >= 0), assume(begin <= end), assume(end <= extents_[0]);
  return {as_index(found), as_index(begin) + as_index(tile) * block, end};
}

}  // namespace tegula
