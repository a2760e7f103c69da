#pragma once
// Counts the pairs of a query and a key that attention computes, and those that its mask keeps.
#include <cstdint>
#include <optional>
#include <vector>

#include "tegula/kernels/attention.h"

namespace tegula {

/// Pairs of the first head of the first entry of a batch.
struct AttentionWorkload {
  AttentionTileShape tiles;  ///< tile shape that attention chooses for the call
  /// Pairs that the mask keeps; nothing if that was not decided for every pair.
  std::optional<std::int64_t> kept;
  /// Pairs of all kv blocks that query tiles visit, in full: rows beyond the last query and keys
  /// beyond the last one are computed, too.
  std::int64_t computed = 0;
  /// Blocks that each tile of queries visits.
  std::vector<std::int64_t> steps = {};
  /// Pairs of the blocks of kCoverQueries x kCoverKeys, in rows and columns from the first query
  /// and the first key on, that hold a kept pair; in full as well.
  std::int64_t cover = 0;
};

/// Smallest block of one warpgroup instruction: 64 rows, and columns in steps of 8.
inline constexpr int kCoverQueries = 64, kCoverKeys = 8;

/// Pairs of a call with such tensors ([batch, heads, length, head_dim]), of which only extents and
/// device matter. Heads are not packed. A spec without a mask keeps all.
AttentionWorkload attention_pairs(const AttentionSpec& spec, const Tensor& Q, const Tensor& K,
                                  const Tensor& V, const AttentionSchedule& schedule = {});

}  // namespace tegula
