#pragma once
// Extents of attention's tiles by head dim: what registers and shared memory of an sm_90 CTA hold.
#include <initializer_list>

#include "kernels/attention/score_cost.h"
#include "tegula/kernels/attention.h"

namespace tegula {

inline constexpr int kMaxHeadDim = 256;

/// The extent of a tile that holds a head dim: products take steps of 16.
int padded_head_dim(int dim);

/// Extents that the kernel may be traced with.
inline constexpr std::initializer_list<int> kQueryTiles{16, 32, 64, 128, 192},
    kKeyTiles{16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224};

/// What takes registers beside the head dims, which need not be padded.
struct TileNeeds {
  int dim, value_dim;
  ScoreCost score = {};
  bool has_gaps = false;  ///< finding a block that is not just the one behind the last
  bool has_score = false;
};
AttentionTiles attention_tiles(const TileNeeds& needs);

/// Which keys a tile of queries visits, as far as it is known before the kernel is traced.
enum class KeyReach : std::uint8_t {
  unknown,
  all,
  up_to_row,  ///< from the first to one that rises with the rows
};

/// Tiles with as many keys as fit where no score and no gap takes registers.
AttentionTiles wide_tiles(const TileNeeds& needs);
struct AttentionLengths {
  std::int64_t queries, keys;
  std::int64_t first_query = 0;  ///< its position among the keys
};
/// Whether those are estimated to be faster: fewer steps, more keys that no row needs.
bool is_wide_better(const TileNeeds& needs, KeyReach reach, const AttentionLengths& lengths);

/// Tiles of three warpgroups, which share the keys and values that are brought. Each has the fewer
/// registers, and limits of keys on both sides (`reach` unknown) take some.
AttentionTiles tall_tiles(const TileNeeds& needs, KeyReach reach);
/// Whether those are estimated to be faster than either of the others, on GPUs with wgmma.
bool is_tall_better(const TileNeeds& needs, KeyReach reach, std::int64_t queries);

}  // namespace tegula
