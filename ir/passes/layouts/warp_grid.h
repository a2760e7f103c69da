#pragma once
// How the warps of a plan divide the accumulator of a dot.
#include <bit>
#include <cstdint>
#include <string_view>

#include "ir/target.h"

namespace tegula::ir {

struct WarpGrid {
  int rows = 1, columns = 1;  ///< warps along each; their product is the number of warps
};

/// Returns a grid with `warps_m` of `num_warps` warps along the rows. If there are fewer rows than
/// these cover, warps move from the rows to the columns.
constexpr WarpGrid warp_grid(std::int64_t m, std::int64_t n, int warps_m, int num_warps) {
  WarpGrid grid{warps_m > 0 ? warps_m : num_warps};
  grid.columns = num_warps / grid.rows;
  while (grid.rows > 1 && grid.rows * kWarpRows > m &&
         n >= static_cast<std::int64_t>(kMmaColumns) * grid.columns * 2)
    grid.rows /= 2, grid.columns *= 2;
  return grid;
}

/// Largest number of rows of a tile that warpgroups multiply by wgmma.
inline constexpr std::int64_t kMaxWgmmaTileRows = 256;
/// Largest number of parts into which the columns of 64 rows are divided: an offset of B must be
/// one constant times the index of the part.
inline constexpr int kMaxColumnParts = 2;

/// Returns why whole warpgroups cannot divide an accumulator of m rows and n columns for wgmma;
/// empty if they can.
constexpr std::string_view why_not_divided(std::int64_t m, std::int64_t n, const WarpGrid& warps) {
  const bool has_binary_columns = std::has_single_bit(static_cast<std::uint64_t>(n / kMmaColumns));
  if (m % kWgmmaRows != 0) return "its rows are not a multiple of 64";
  if (m > kMaxWgmmaTileRows) return "it has more than 256 rows";
  if (m % (kWarpRows * warps.rows) != 0 || warps.rows % kWarpgroupWarps != 0)
    return "warpgroups cannot divide its rows";
  if (warps.columns > 1 && (warps.columns > kMaxColumnParts || !has_binary_columns))
    return "warpgroups cannot divide its columns";
  if (m > kWarpRows * warps.rows && !has_binary_columns)
    return "warps have several blocks of its rows, and its columns are not a power of two";
  return {};
}

}  // namespace tegula::ir
