#pragma once
// A box of a view: the elements that load_view, store_view and copy_async touch, and which of them
// lie inside the tensor.
#include "ir/eval/number.h"
#include "ir/eval/program.h"

namespace tegula::ir::interp {

struct Box {
  /// One dimension of the tile: its extent, its step in memory, and the indices [low, high) that
  /// lie in the tensor.
  struct Dim {
    std::int64_t extent, step_bytes, low, high;
  };
  const MemoryRegion* region = nullptr;
  std::vector<Dim> dims;
  const std::byte* first = nullptr;  ///< address of index 0 of the tile, even if absent
  /// A dimension that the tile does not run along is out of range: every element lies outside.
  bool is_outside = false;

  bool is_inside() const;
  std::size_t count() const;
};

/// The box of operand `view` of the op, whose offsets are the operands from `first_offset` on and
/// whose tile has `shape`.
Box make_box(Program& p, OpId id, std::size_t view, std::size_t first_offset,
             std::span<const std::int64_t> shape);

/// Marks the indices of `out` that the box has outside of the tensor. `out` holds its cells.
void mark_outside(const Box& box, TileValue& out);

/// Calls visit(index in the tile, address) for every element inside the tensor, in row-major order.
template <class Visit>
void for_each_inside(const Box& box, const Visit& visit) {
  if (box.is_outside) return;
  for (const Box::Dim& d : box.dims)
    if (d.low >= d.high) return;
  const std::size_t rank = box.dims.size();
  if (rank == 0) return visit(std::size_t{0}, box.first);
  const Box::Dim& inner = box.dims.back();
  std::vector<std::int64_t> index;
  for (const Box::Dim& d : box.dims) index.push_back(d.low);
  for (;;) {
    std::int64_t element = 0, offset = 0;
    for (std::size_t d = 0; d + 1 < rank; ++d) {
      element = element * box.dims[d].extent + index[d];
      offset += index[d] * box.dims[d].step_bytes;
    }
    element *= inner.extent;
    for (std::int64_t i = inner.low; i < inner.high; ++i)
      visit(static_cast<std::size_t>(element + i), box.first + offset + i * inner.step_bytes);
    std::size_t d = rank - 1;
    for (;;) {
      if (d == 0) return;
      --d;
      if (++index[d] < box.dims[d].high) break;
      index[d] = box.dims[d].low;
    }
  }
}

/// Reads the box; elements outside the tensor become zero cells.
void read_box(Program& p, OpId id, const Box& box, Cell* cells);

}  // namespace tegula::ir::interp
