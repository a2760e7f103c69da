#pragma once
// How many pairs of a query and a key attention computes, beside those that its mask keeps.
#include <cstdint>
#include <optional>
#include <vector>

#include "tegula/kernels/attention.h"

namespace tegula {

/// Of the first head of the first entry of a batch.
struct AttentionPairs {
  AttentionTiles tiles;  ///< that attention chooses for the call
  /// What the mask keeps; nothing where that was not decided for every pair.
  std::optional<std::int64_t> kept;
  /// Of all blocks that tiles of queries visit, whole ones: rows behind the last query and keys
  /// behind the last one are computed, too.
  std::int64_t computed = 0;
  /// Blocks that each tile of queries visits.
  std::vector<std::int64_t> steps = {};
  /// Of the blocks of kCoverQueries x kCoverKeys, in rows and columns from the first query and the
  /// first key on, that hold a kept pair; whole ones as well.
  std::int64_t cover = 0;
};

/// What one instruction of a warpgroup cannot be smaller than: 64 rows, and columns in steps of 8.
inline constexpr int kCoverQueries = 64, kCoverKeys = 8;

/// Of a call with such tensors ([batch, heads, length, head_dim]), of which only extents and device
/// matter. Heads are not packed. A spec without a mask keeps all.
AttentionPairs attention_pairs(const AttentionSpec& spec, const Tensor& Q, const Tensor& K,
                               const Tensor& V, const AttentionSchedule& schedule = {});

}  // namespace tegula
