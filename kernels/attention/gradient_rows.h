#pragma once
// The small kernels before and after attention's main backward kernel, a row per query.
#include <cstdint>
#include <optional>

#include "tegula/tegula.h"

namespace tegula::kernels {

/// The results of the forward call and their gradients: O and dO [batch, heads, seqlen_q,
/// head_dim_v], lse and dlse [batch, heads, seqlen_q]. Without lse, L and D are not written.
template <class T>
struct ForwardResults {
  In<T, 4> O, dO;
  std::optional<In<f32, 3>> lse;
  std::optional<In<f32, 3>> dlse;
};

/// Rows of the workspace, whose number is a multiple of the query block (BackwardTensors). dQ
/// [batch, heads, blocks of kGradientRows queries, elements of a block in the order of
/// in_fragment_order] is cleared.
struct GradientRows {
  Out<f32, 3> L, D;
  std::optional<Out<f32, 4>> dQ;
};

/// The sinks, and partial sums of their gradients, [batch, heads, tiles of kGradientRows queries].
struct SinkGradients {
  std::optional<In<f32, 1>> sinks;
  std::optional<Out<f32, 3>> partial;
};

/// Queries of a program of these kernels.
inline constexpr int kGradientRows = 64;

/// Returns the columns of tiles of head dim `dim`: warpgroups divide those of dQ, which must be a
/// power of two for that.
int backward_columns(std::int64_t dim);

/// Returns the elements of a tile of dQ, [kGradientRows, columns], as the workspace has them: the
/// elements that a thread holds after an MMA are in runs of four, and those of a warp are
/// consecutive, so that each instruction adds 512 bytes of memory.
Tile in_fragment_order(const Tile& sums);

/// Prepares the rows before the main kernel.
template <class T>
KernelOf<ForwardResults<T>, GradientRows, SinkGradients> gradient_rows();

/// dQ = scale * sums, which are in the order of in_fragment_order, without the rows that are
/// padding.
template <class T>
KernelOf<In<f32, 4>, Out<T, 4>, Scalar<f32>> query_gradients();

/// Adds the partial sums of the gradients of sinks in the order of batch entries and tiles.
KernelOf<In<f32, 3>, Out<f32, 1>> sink_gradients();

}  // namespace tegula::kernels
