// Maps tile ids to tile coordinates, for the tiles of a grid and for programs that choose their own
// tiles (tiles_of).
#include "dsl/raster_order.h"

#include "dsl/elementwise.h"
#include "tegula/tiles.h"

namespace tegula {
namespace dsl {

std::vector<ir::Value> RasterOrder::decode(ir::Value number) {
  const std::size_t n = counts_.size();
  if (options_.group_m > 1 && n >= 2) {
    if (n > 2) {
      const ir::Value plane = b_.mul(counts_[n - 2], counts_[n - 1]);
      row_major(b_.div(number, plane), n - 2);
      number = b_.rem(number, plane);
    }
    grouped(number);
  } else {
    row_major(number, n);
  }
  if (options_.balanced_pairs) tiles_[n - 1] = fold_order(tiles_[n - 1], counts_[n - 1]);
  return tiles_;
}

/// Decodes the first `n` dimensions; the last of them varies fastest.
void RasterOrder::row_major(ir::Value number, std::size_t n) {
  for (std::size_t i = n; i-- > 1;) {
    tiles_[i] = b_.rem(number, counts_[i]);
    number = b_.div(number, counts_[i]);
  }
  tiles_[0] = number;
}

/// Last, first, last but one, second, ..: any two adjacent tiles have as much work as the next two.
ir::Value RasterOrder::fold_order(ir::Value number, ir::Value count) {
  const ir::Value half = b_.op(Opcode::Shr, {number, b_.i32(1)}),
                  is_even = b_.cmp("eq", b_.op(Opcode::And, {number, b_.i32(1)}), b_.i32(0));
  return b_.select(is_even, b_.sub(b_.sub(count, b_.i32(1)), half), half);
}

/// Decodes the last two dimensions: down the rows of a group, then to the next column.
void RasterOrder::grouped(ir::Value number) {
  const std::size_t m = counts_.size() - 2, n = m + 1;
  const ir::Value height = b_.i32(options_.group_m);
  const ir::Value group_size = b_.mul(height, counts_[n]);
  const ir::Value first_row = b_.mul(b_.div(number, group_size), height);
  const ir::Value rows = b_.op(Opcode::Min, {b_.sub(counts_[m], first_row), height});
  const ir::Value inside = b_.rem(number, group_size);
  tiles_[m] = b_.add(first_row, b_.rem(inside, rows));
  tiles_[n] = b_.div(inside, rows);
}

ir::Value block_count(ir::Builder& b, ir::Value extent, std::int64_t block) {
  const ir::Type type = b.kernel().type(extent);
  if (block > 1)
    extent = b.div(b.add(extent, b.constant(type, block - 1)), b.constant(type, block));
  return b.cast(extent, DType::i32);
}

}  // namespace dsl

namespace detail {

TileRaster::TileRaster(const GridSpace& space, GridOptions options)
    : extents_(space.extents()), options_(std::move(options)) {
  dsl::Tracer& t = dsl::Tracer::at(space.loc(), "tiles_of");
  const std::size_t n = options_.blocks.size();
  if (n > extents_.size())
    fail(ErrorId::grid_rank, space.loc(), {}, "tiles_of", n, extents_.size());
  for (const std::int64_t block : options_.blocks)
    if (!dsl::is_block(block)) fail(ErrorId::bad_block, space.loc(), {}, block);
  for (std::size_t i = 0; i < n; ++i)
    counts_.push_back(t.tile(dsl::block_count(t.build, t.value(extents_[i]), options_.blocks[i])));
}

Tile TileRaster::count(Loc at) const {
  dsl::Tracer& t = dsl::Tracer::at(at, "tiles_of");
  ir::Value count = t.value(counts_[0]);
  for (std::size_t i = 1; i < counts_.size(); ++i) count = t.build.mul(count, t.value(counts_[i]));
  return t.tile(t.indices.restated(t.build, count, dsl::IndexTypes::Kind::Number));
}

std::vector<Index> TileRaster::at(const Arg& number) const {
  dsl::Tracer& t = dsl::Tracer::at(number.loc(), "tiles_of");
  std::vector<ir::Value> counts;
  for (const Tile& c : counts_) counts.push_back(t.value(c));
  const ir::Value n = t.build.cast(dsl::operand(t, number, DType::i32), DType::i32);
  const auto tiles = dsl::RasterOrder(t.build, options_, std::move(counts)).decode(n);
  std::vector<Index> indices;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    // The index may not fit in 32 bits.
    ir::Value first = t.build.cast(tiles[i], t.index_type());
    const ir::Type type = t.kernel.type(first);
    if (const std::int64_t block = options_.blocks[i]; block > 1)
      first = t.build.mul(first, t.build.constant(type, block));
    const ir::Value extent = t.build.cast(t.value(extents_[i]), t.index_type());
    const ir::Value zero = t.build.constant(t.kernel.type(first), std::int64_t{0});
    t.build.effect(dsl::Opcode::Assume, {t.build.cmp("ge", first, zero)});
    t.build.effect(dsl::Opcode::Assume, {t.build.cmp("lt", first, extent)});
    first = t.indices.restated(t.build, first, dsl::IndexTypes::Kind::Index);
    indices.emplace_back(t.tile(first), options_.blocks[i]);
  }
  return indices;
}

}  // namespace detail
}  // namespace tegula
