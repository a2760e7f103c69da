#pragma once
// The main kernel of attention's backward pass, in the DSL; `backward.cpp` launches it.
#include <memory>
#include <optional>

#include "kernels/attention/captured_gradients.h"
#include "kernels/attention/gradient_rows.h"
#include "kernels/attention/kv_block_iterator.h"
#include "tegula/block_mask.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// Parameters of the kernel: tensors of a backward call, those of the forward call, the gradient of
/// O, and what GradientRows has written for each query. Gradients that are absent are not computed.
template <class T>
struct BackwardParams {
  /// For packed sequences, Q, dO and K are copies in whole tiles (GradientRows, whole_keys).
  In<T, 4> Q, K, V, dO;
  /// [batch, heads, padded queries]: the logarithm to base 2 of the softmax's denominator, +inf
  /// for a row without keys; and the dot product of O and dO minus the gradient of lse.
  In<f32, 3> L, D;
  std::optional<InOut<f32, 4>> dQ;  ///< sums without `scale` (GradientRows)
  std::optional<Out<T, 4>> dK, dV;
  Scalar<f32> scale;
  /// Whether several query heads share a head of keys. The lists are then those of group_lists.h,
  /// for heads of 2^log2_blocks blocks.
  bool is_grouped;
  Scalar<i32> log2_blocks;
  BlockListParams lists;
  std::optional<In<i32, 1>> starts_q, starts_kv;  ///< of packed sequences (CuSeqlens)
  CapturedViews<T> captured;
};

/// Queries of an iteration, keys of a program, slots of the rings, and columns of dK and dV that
/// are stored at a time (0: all), for which shared memory needs room.
///
/// With `of_queries`, the kernel computes dQ without additions to memory: the roles of queries and
/// keys are exchanged in all parameters but L and D, so that K is Q, V is dO, Q is K, dO is V and
/// dK is dQ, and so are tiles, starts and lists.
struct BackwardTiles {
  int block_q = kGradientRows, block_kv = kGradientKeys, stages = 2, store_columns = 0;
  /// Whether TMA loads what the score reads for each pair, into as many slots as fit.
  bool tma_aux_loads = false;
  bool heads_last = false;  ///< AttentionBackwardConfig
  bool of_queries = false;
  /// True if each packed sequence has its own columns of lists, as in the caller's lists; false:
  /// sequences share columns by group_window. Blocks that the sequence lacks are masked.
  bool lists_by_sequence = false;
  friend auto operator<=>(const BackwardTiles&, const BackwardTiles&) = default;
};

/// All that a kernel depends on, except for its arguments.
struct BackwardSetup {
  std::shared_ptr<const AttentionHeuristics> facts;
  /// The mask with the rows of tiles in place of queries; null: all pairs are visible.
  std::shared_ptr<const BlockMask> block_mask;
  BackwardTiles tiles;
  std::shared_ptr<const ScoreCaptures> captures;
  CapturedSelection selected;  ///< the gradients that the kernel computes
};

template <class T>
using BackwardKernel = KernelOf<BackwardParams<T>>;

template <class T>
BackwardKernel<T> backward_kernel(const BackwardSetup& setup);

}  // namespace tegula::kernels
