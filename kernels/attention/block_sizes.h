#pragma once
// Extents of attention's tiles by head dim: what registers and shared memory of an sm_90 CTA hold.
#include "kernels/attention/score_cost.h"

namespace tegula {

inline constexpr int kMaxHeadDim = 256;

/// The extent of a tile that holds a head dim: products take steps of 16.
int padded_head_dim(int dim);

/// Rows and keys of the tiles of attention.
struct AttentionTiles {
  int queries, keys;
};

/// What takes registers beside the head dims, which need not be padded.
struct TileNeeds {
  int dim, value_dim;
  ScoreCost score = {};
  bool has_gaps = false;  ///< finding a block that is not just the one behind the last
};
AttentionTiles attention_tiles(const TileNeeds& needs);

}  // namespace tegula
