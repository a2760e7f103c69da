#pragma once
// Extents of attention's tiles by head dim, limited by registers and shared memory of sm_90 CTAs.
#include <initializer_list>

#include "tegula/attention_config.h"
#include "tegula/functions.h"

namespace tegula {

/// Largest head dim of attention.
inline constexpr int kMaxHeadDim = 256;

/// Returns the head dim rounded up to a multiple of 16, the k step of an MMA.
int padded_head_dim(int dim);

/// Extents that the kernel may be traced with.
inline constexpr std::initializer_list<int> kQueryTiles{16, 32, 64, 128, 192},
    kKeyTiles{16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224};
/// Queries of a tile with few rows of packed heads, and of tiles whose keys are split.
inline constexpr int kSmallQBlock = 64;

/// Maximum number of programs that split the keys of a tile, and the sizes of their clusters.
inline constexpr int kMaxSplitKv = 256;
inline constexpr std::initializer_list<int> kSplitKvClusters{8, 4, 2, 1};

/// Properties of a call that determine register use. Head dims need not be padded.
struct TileRequirements {
  int dim, head_dim_v;
  ScoreTraits score = {};
  bool is_non_contiguous = false;  ///< kv blocks of a tile are not consecutive
  bool has_score = false;
};
TileRequirements requirements_of(const AttentionProblem& problem);

/// Returns tiles of 128 queries that leave registers for two blocks of weights, a score and the
/// search for the next block.
AttentionTileShape attention_tiles(const TileRequirements& needs);
/// Returns tiles with the most keys that fit if neither a score nor a block search needs registers.
AttentionTileShape large_n_tiles(const TileRequirements& needs);
/// Returns tiles of three consumer warpgroups, which share the loaded keys and values. Each thread
/// has fewer registers, and two-sided key bounds (`kv_extent` unknown) take some of them.
AttentionTileShape three_warpgroup_tiles(const TileRequirements& needs, KvExtent kv_extent);
/// Returns tiles for a score whose tensors TMA loads (ScoreTraits::tma_bytes_per_element). The
/// elements of a kv block are in shared memory next to its keys, and in registers next to the
/// accumulator.
AttentionTileShape tma_bias_tiles(const TileRequirements& needs);

/// Returns the most keys for which shared memory holds two stages next to `rows` queries, with
/// `pair_bytes` per pair of query and key. Head dims need not be padded.
int keys_by_shared(int dim, int head_dim_v, int rows, int pair_bytes);
/// Returns the most keys, a multiple of 16, of tiles of kSmallQBlock rows whose threads copy keys
/// and values, if two CTAs share an SM: shared memory then holds three stages of each, and one tile
/// of queries or results that changes its layout.
int keys_of_paired_ctas(int dim, int head_dim_v);

}  // namespace tegula
