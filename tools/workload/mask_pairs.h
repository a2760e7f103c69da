#pragma once
// Counts the pairs of a query and a key that a mask keeps, and those of the best cover by blocks.
#include <cstdint>

#include "ir/analysis/mask/blocks.h"

namespace tegula {

struct BlockExtent {
  std::int64_t queries, keys;
};

/// The number of kept pairs is in [least, most]; the bounds are equal if every pair was decided.
struct MaskPairs {
  std::int64_t least = 0, most = 0;
  /// Pairs of the blocks that contain a kept or an undecided pair. Blocks at the ends count in
  /// full, because they are computed in full.
  std::int64_t cover = 0;

  friend bool operator==(const MaskPairs&, const MaskPairs&) = default;
};

/// Counts by bisecting undecided regions, first between blocks, then within a block.
class MaskPairCounter {
 public:
  MaskPairCounter(ir::MaskBlocks& blocks, const ir::MaskParams& params, BlockExtent cover)
      : blocks_(blocks), params_(params), cover_(cover) {}

  /// Counts the pairs of `all`. Blocks of the cover begin at the first query and the first key.
  MaskPairs count(const ir::MaskBlock& all);

 private:
  void count_blocks(const ir::MaskBlock& b, MaskPairs& sum);
  void count_within(const ir::MaskBlock& b, MaskPairs& sum);

  ir::MaskBlocks& blocks_;
  const ir::MaskParams& params_;
  BlockExtent cover_;
  std::int64_t budget_ = 0;  ///< number of blocks that may still be classified
};

}  // namespace tegula
