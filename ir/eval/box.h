#pragma once
// A box of a view: the elements that load_view, store_view and copy_async access, and the subset of
// them inside the tensor.
#include "ir/access.h"
#include "ir/eval/number.h"
#include "ir/eval/program.h"

namespace tegula::ir::interp {

struct Box {
  /// One dimension of the tile: its extent, its step in memory, and the indices [low, high) that
  /// are inside the tensor.
  struct Dim {
    std::int64_t extent, step_bytes, low, high;
  };
  /// An index along the dimension that index tiles select from. `bytes` is its distance from
  /// `first` if it is inside the tensor. An index is absent if the index tile's element is absent;
  /// an out-of-bounds index is present but has no address.
  struct Place {
    std::int64_t bytes = 0;
    bool is_inside = true, is_absent = false;
  };
  const MemoryRegion* region = nullptr;  ///< null: no memory is accessed
  const TensorArg* tensor = nullptr;
  std::vector<Dim> dims;
  const std::byte* first = nullptr;  ///< address of index 0 of the tile, even if absent
  /// True if every element is outside, because the offset is out of bounds in a view dimension that
  /// no tile dimension covers.
  bool is_outside = false;
  std::size_t gathered = kNone;  ///< tile dimension with `places` instead of a step
  std::vector<Place> places;

  static constexpr std::size_t kNone = SIZE_MAX;
  /// Returns the distance of index `i` of dimension `d` from `first`, or nothing if it has no
  /// address.
  std::optional<std::int64_t> distance(std::size_t d, std::int64_t i) const {
    if (d != gathered) return i * dims[d].step_bytes;
    const Place& place = places[static_cast<std::size_t>(i)];
    return place.is_inside ? std::optional(place.bytes) : std::nullopt;
  }

  bool is_inside() const;
  std::size_t count() const;
};

/// Returns the box that the op accesses.
Box make_box(Program& p, OpId id);
/// Returns the box of an access of the op, such as one of several.
Box make_box(Program& p, OpId id, const BoxAccess& a);

/// Marks the indices of `out` at which the box is outside the tensor. The cells of `out` must be
/// set.
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
    std::int64_t element = 0;
    std::optional<std::int64_t> offset = 0;
    for (std::size_t d = 0; d + 1 < rank; ++d) {
      element = element * box.dims[d].extent + index[d];
      const auto step = box.distance(d, index[d]);
      offset = offset && step ? std::optional(*offset + *step) : std::nullopt;
    }
    element *= inner.extent;
    for (std::int64_t i = inner.low; offset && i < inner.high; ++i)
      if (const auto step = box.distance(rank - 1, i))
        visit(static_cast<std::size_t>(element + i), box.first + *offset + *step);
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
