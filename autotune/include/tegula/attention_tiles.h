#pragma once
// Extents of attention's tiles by head dim: what registers and shared memory of an sm_90 CTA hold.
#include <initializer_list>

#include "tegula/attention_config.h"
#include "tegula/functions.h"

namespace tegula {

inline constexpr int kMaxHeadDim = 256;

/// The extent of a tile that holds a head dim: a multiple of 16, the k step of an MMA.
int padded_head_dim(int dim);

/// Extents that the kernel may be traced with.
inline constexpr std::initializer_list<int> kQueryTiles{16, 32, 64, 128, 192},
    kKeyTiles{16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224};
/// Queries of the tile for few rows of packed heads, and of tiles whose keys are split.
inline constexpr int kSmallQBlock = 64;

/// Maximum programs that split the keys of a tile, and the sizes of their clusters.
inline constexpr int kMaxSplitKv = 256;
inline constexpr std::initializer_list<int> kSplitKvClusters{8, 4, 2, 1};

/// Properties of a call that take registers besides the head dims, which need not be padded.
struct TileRequirements {
  int dim, head_dim_v;
  ScoreTraits score = {};
  bool is_non_contiguous = false;  ///< kv blocks of a tile are not consecutive
  bool has_score = false;
};
TileRequirements requirements_of(const AttentionProblem& problem);

/// Tiles of 128 queries that leave registers for two blocks of weights, a score and a search for
/// blocks.
AttentionTileShape attention_tiles(const TileRequirements& needs);
/// Tiles with as many keys as fit if no score and no search for blocks takes registers.
AttentionTileShape large_n_tiles(const TileRequirements& needs);
/// Tiles of three consumer warpgroups, which share loaded keys and values. Each thread has fewer
/// registers, and bounds of keys on both sides (`kv_extent` unknown) take some.
AttentionTileShape three_warpgroup_tiles(const TileRequirements& needs, KvExtent kv_extent);
/// Tiles for a score whose tensors TMA loads, as far as ScoreTraits::tma_bytes_per_element says:
/// the elements of a kv block lie in shared memory next to its keys, and in registers next to the
/// accumulator.
AttentionTileShape tma_bias_tiles(const TileRequirements& needs);

/// The most keys for which shared memory holds two stages next to so many queries, `pair_bytes` of
/// each pair of a query and a key included. Head dims need not be padded.
int keys_by_shared(int dim, int head_dim_v, int rows, int pair_bytes);

}  // namespace tegula
