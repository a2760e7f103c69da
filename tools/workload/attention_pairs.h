#pragma once
// Counts the pairs of a query and a key that attention computes, and the pairs that its mask keeps.
#include <cstdint>
#include <optional>
#include <vector>

#include "tegula/kernels/attention.h"

namespace tegula {

/// Pairs of the first head of the first batch entry.
struct AttentionWorkload {
  AttentionTileShape tiles;  ///< tile shape that attention chooses for the call
  /// Pairs that the mask keeps; empty if that could not be decided for every pair.
  std::optional<std::int64_t> kept;
  /// Pairs of all kv blocks that query tiles visit. Blocks count in full, including rows and keys
  /// beyond the last ones, which are computed, too.
  std::int64_t computed = 0;
  /// Number of blocks that each query tile visits.
  std::vector<std::int64_t> steps = {};
  /// Pairs of all blocks of kCoverQueries x kCoverKeys that contain a kept pair. Blocks begin at
  /// the first query and the first key, and count in full.
  std::int64_t cover = 0;
};

/// Smallest block of a warpgroup instruction: 64 rows, and columns in steps of 8.
inline constexpr int kCoverQueries = 64, kCoverKeys = 8;

/// Returns the pairs of a call. Of the tensors ([batch, heads, length, head_dim]), only extents and
/// device matter. Heads are not packed. A spec without a mask keeps all pairs.
AttentionWorkload attention_pairs(const kernels::AttentionSpec& spec, const Tensor& Q,
                                  const Tensor& K, const Tensor& V,
                                  const kernels::AttentionSchedule& schedule = {});

}  // namespace tegula
