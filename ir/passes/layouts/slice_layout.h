#pragma once
// The layout of a slice of a tile.
#include <cstdint>
#include <optional>

#include "ir/layout/layout_ops.h"
#include "ir/type.h"

namespace tegula::ir {

/// Layout of `extent` elements from `at` along one dimension; nothing if registers alone do not
/// select them.
inline std::optional<LinearLayout> slice_layout(Type t, int dim, std::int64_t at,
                                                std::int64_t extent) {
  Dims offset = Dims::filled(static_cast<int>(t.rank()), 0), extents;
  for (std::int64_t e : t.shape()) extents.push_back(static_cast<int>(e));
  offset[dim] = static_cast<int>(at);
  extents[dim] = static_cast<int>(extent);
  const auto view = subtile(*t.layout(), offset, extents);
  return view ? std::optional(view->layout) : std::nullopt;
}

}  // namespace tegula::ir
