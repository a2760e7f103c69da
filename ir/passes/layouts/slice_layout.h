#pragma once
// Slices of a tile, and their layouts.
#include <cstdint>
#include <optional>

#include "ir/builder.h"
#include "ir/layout/layout_ops.h"
#include "ir/type.h"

namespace tegula::ir {

/// Returns the layout of `extent` elements from `begin` along one dimension; nothing if registers
/// alone do not select them.
inline std::optional<LinearLayout> slice_layout(Type t, int dim, std::int64_t begin,
                                                std::int64_t extent) {
  Dims offset = Dims::filled(static_cast<int>(t.rank()), 0), extents = dims_of(t.shape());
  offset[dim] = static_cast<int>(begin);
  extents[dim] = static_cast<int>(extent);
  const auto view = subtile(*t.layout(), offset, extents);
  return view ? std::optional(view->layout) : std::nullopt;
}

/// Returns the type of such a slice, whose layout must exist.
inline Type slice_type(Type t, int dim, std::int64_t begin, std::int64_t extent) {
  std::vector<std::int64_t> shape(t.shape().begin(), t.shape().end());
  shape[static_cast<std::size_t>(dim)] = extent;
  return Type::tile(t.elem(), shape, intern_layout(*slice_layout(t, dim, begin, extent)));
}

inline Value tile_slice(Builder& b, Value v, int dim, std::int64_t begin, std::int64_t extent) {
  const Type t = b.kernel().type(v);
  Ints start(t.shape().size(), 0);
  start[static_cast<std::size_t>(dim)] = begin;
  return b.op(Opcode::TileSlice, {v}, slice_type(t, dim, begin, extent),
              {{AttrName::offsets, start}});
}

}  // namespace tegula::ir
