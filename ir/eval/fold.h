#pragma once
// The named folds of reduce and scan. Floats accumulate in double; the caller rounds once at the
// end.
#include <string_view>

#include "ir/eval/cell.h"

namespace tegula::ir::interp {

struct Fold {
  Cell identity;
  void (*step)(Cell& accumulator, Cell next);
};

/// Returns the fold of a kind and type. `nan` is the attribute of min and max.
Fold fold_of(std::string_view kind, DType dtype, std::string_view nan);

/// A tile viewed as [outer, extent, inner] around one of its dimensions.
struct AxisShape {
  std::size_t outer = 1, extent = 1, inner = 1;
  AxisShape(std::span<const std::int64_t> shape, std::int64_t axis);
};

/// Returns `edges` without the part of dimension `axis`.
std::vector<std::uint8_t> edges_without(const std::vector<std::uint8_t>& edges,
                                        std::span<const std::int64_t> shape, std::int64_t axis);

}  // namespace tegula::ir::interp
