#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <source_location>
#include <utility>
#include <vector>

#include "tegula/control.h"

/// Tiles by their ids, for programs that choose their own tiles.
namespace tegula {

namespace detail {

class TileRaster {
 public:
  TileRaster(const GridSpace& space, GridOptions options);
  Tile count(Loc at) const;
  std::vector<Index> at(const Arg& number) const;

 private:
  std::vector<Tile> extents_, counts_;
  GridOptions options_;
};

template <std::size_t N>
class Tiles {
 public:
  Tiles(const GridSpace& space, GridOptions options) : numbers_(space, std::move(options)) {}
  /// Returns the number of tiles, an i32.
  Tile count(std::source_location at = std::source_location::current()) const {
    return numbers_.count(at);
  }
  /// Returns tile `number`: its index along each dimension.
  std::array<Index, N> at(const Arg& number) const {
    const std::vector<Index> indices = numbers_.at(number);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<Index, N>{indices[I]...};
    }(std::make_index_sequence<N>{});
  }

 private:
  TileRaster numbers_;
};

}  // namespace detail

/// Returns the tiles of a space, numbered in the raster order of a `grid` of the same blocks and
/// options: `tiles_of(C, 128, 64).at(number)` gives its rows and columns.
template <class... Options>
  requires((std::integral<Options> || std::same_as<Options, group_m> ||
            std::same_as<Options, BalancedPairs>) &&
           ...)
auto tiles_of(const GridSpace& space, Options... blocks_and_order) {
  constexpr std::size_t n = (std::size_t{0} + ... + std::size_t{std::integral<Options>});
  static_assert(n > 0, "tegula: tiles_of(space, block...) needs the extents of a block");
  detail::GridOptions options;
  (options.add(blocks_and_order), ...);
  return detail::Tiles<n>(space, std::move(options));
}

}  // namespace tegula
