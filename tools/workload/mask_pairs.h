#pragma once
// How many pairs of a query and a key a mask keeps, and how many the best cover by blocks has.
#include <cstdint>

#include "ir/analysis/mask/blocks.h"

namespace tegula {

struct BlockExtent {
  std::int64_t queries, keys;
};

/// Pairs in [least, most] are kept; equal where every pair was decided.
struct MaskPairs {
  std::int64_t least = 0, most = 0;
  /// Pairs of the blocks that hold a kept or an undecided pair. Blocks at the ends count in full,
  /// as they are computed.
  std::int64_t cover = 0;

  friend bool operator==(const MaskPairs&, const MaskPairs&) = default;
};

/// Counts by cutting what is undecided in two, first between blocks, then within one.
class MaskPairCounter {
 public:
  MaskPairCounter(ir::MaskBlocks& blocks, const ir::MaskParams& params, BlockExtent cover)
      : blocks_(blocks), params_(params), cover_(cover) {}

  /// The blocks of the cover begin at the first query and the first key.
  MaskPairs count(const ir::MaskBlock& all);

 private:
  void count_blocks(const ir::MaskBlock& b, MaskPairs& sum);
  void count_within(const ir::MaskBlock& b, MaskPairs& sum);

  ir::MaskBlocks& blocks_;
  const ir::MaskParams& params_;
  BlockExtent cover_;
  std::int64_t budget_ = 0;  ///< blocks that may still be classified
};

}  // namespace tegula
