#pragma once
// Extents of attention's tiles by head dim: what registers and shared memory of an sm_90 CTA hold.

namespace tegula {

inline constexpr int kMaxHeadDim = 256;

/// The extent of a tile that holds a head dim: products take steps of 16.
int padded_head_dim(int dim);

/// Keys that a step takes, for padded head dims of queries and keys, and of values. `costly_score`:
/// computing the scores takes registers too.
int keys_of_a_step(int dim, int value_dim, bool costly_score);

}  // namespace tegula
