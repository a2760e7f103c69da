#pragma once
// The tiles of a grid in the order in which programs take them.
#include <cstdint>
#include <vector>

#include "ir/builder.h"
#include "tegula/control.h"

namespace tegula::dsl {

/// Returns the number of blocks that cover an extent, as i32: a launch has fewer than 2^31
/// programs.
ir::Value block_count(ir::Builder& b, ir::Value extent, std::int64_t block);

/// Maps a tile's number to its position along each dimension.
class RasterOrder {
 public:
  /// `counts`: number of tiles along each dimension, i32.
  RasterOrder(ir::Builder& builder, const detail::GridOptions& options,
              std::vector<ir::Value> counts)
      : b_(builder), options_(options), counts_(std::move(counts)), tiles_(counts_.size()) {}
  std::vector<ir::Value> decode(ir::Value number);

 private:
  void row_major(ir::Value number, std::size_t n);
  ir::Value fold_order(ir::Value number, ir::Value count);
  void grouped(ir::Value number);

  ir::Builder& b_;
  const detail::GridOptions& options_;
  std::vector<ir::Value> counts_, tiles_;
};

}  // namespace tegula::dsl
