#pragma once
// Loads from pages as boxes: index tiles that select whole runs of rows.
#include <optional>

#include "ir/kernel.h"

namespace tegula::ir {

/// A load whose index tiles select runs of `rows` consecutive rows of a page each, as those of a
/// paged view do: element i is at position first + i, which has row position % page rows of a page
/// that only position / page rows determines. Positions from `end` on are absent.
struct PageBoxes {
  std::int64_t rows = 0;    ///< rows of a box; a multiple of 16 that divides the tile's rows
  std::size_t row_dim = 0;  ///< view dimension of the rows
  Value row;                ///< tile of rows, for positions in [0, end)
  Value first, end;
};

/// Returns the boxes of a load_view along the first dimension of its tile, or nothing if its index
/// tiles are not known to have this form, or if threads must load it because it names a cache
/// operator.
std::optional<PageBoxes> page_boxes(const Kernel& k, const OpData& load);

}  // namespace tegula::ir
