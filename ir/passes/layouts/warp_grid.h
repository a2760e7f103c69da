#pragma once
// How the warps of a plan divide the accumulator of a dot.
#include <cstdint>

#include "ir/target.h"

namespace tegula::ir {

struct WarpGrid {
  int rows = 1, columns = 1;  ///< warps along each; their product is the number of warps
};

/// `warps_m` of `num_warps` along the rows. Where there are fewer rows than these cover, warps move
/// over to the columns.
constexpr WarpGrid warp_grid(std::int64_t m, std::int64_t n, int warps_m, int num_warps) {
  WarpGrid grid{warps_m > 0 ? warps_m : num_warps};
  grid.columns = num_warps / grid.rows;
  while (grid.rows > 1 && grid.rows * kWarpRows > m &&
         n >= static_cast<std::int64_t>(kMmaColumns) * grid.columns * 2)
    grid.rows /= 2, grid.columns *= 2;
  return grid;
}

}  // namespace tegula::ir
