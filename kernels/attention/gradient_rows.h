#pragma once
// The small kernels before and after attention's main backward kernel, a row per query.
#include <cstdint>
#include <optional>
#include <vector>

#include "tegula/tegula.h"

namespace tegula::kernels {

/// Queries of a program of these kernels.
inline constexpr int kGradientRows = 64;

/// Keys of a program of the main kernel.
inline constexpr int kGradientKeys = 128;

/// Parameters of the kernel that prepares the rows before the main kernel.
template <class T>
struct GradientRows {
  /// The results of the forward call and their gradients: O and dO [batch, heads, seqlen_q,
  /// head_dim_v], lse and dlse [batch, heads, seqlen_q]. Without lse, L and D are not written.
  In<T, 4> O, dO;
  std::optional<In<f32, 3>> lse, dlse;
  /// Rows of the workspace, whose number is a multiple of the query block (BackwardParams). dQ
  /// [batch, heads, blocks of kGradientRows queries, elements of a block] is cleared.
  Out<f32, 3> L, D;
  std::optional<Out<f32, 4>> dQ;
  /// The sinks, and partial sums of their gradients, [batch, heads, tiles of kGradientRows
  /// queries].
  std::optional<In<f32, 1>> sinks;
  std::optional<Out<f32, 3>> partial;
  /// Packed sequences (CuSeqlens). The workspace has their queries in whole tiles
  /// (VarlenTileScheduler), so it also has copies of Q and dO, [1, heads, rows of the workspace,
  /// head dim], with zeros in rows beyond the end of a sequence: those of the next sequence may not
  /// be finite.
  std::optional<In<i32, 1>> starts;
  std::optional<In<T, 4>> Q;
  std::optional<Out<T, 4>> whole_Q, whole_dO;
};

/// The kernels for tensors of one element type.
template <class T>
struct RowKernels {
  RowKernels();

  KernelOf<GradientRows<T>> rows;
  /// Copies K [1, kv heads, total length, head dim] of packed sequences, whose starts are the
  /// second parameter, to whole tiles of kGradientKeys keys. Rows that no sequence has are 0.
  KernelOf<In<T, 4>, In<i32, 1>, Out<T, 4>> whole_keys;
  /// dQ = scale * sums, [batch, heads, blocks of queries, elements of a block in the order of
  /// in_fragment_order], without the rows that are padding. Blocks of fewer than kGradientRows
  /// queries are transposed. The last parameter is GradientRows::starts.
  KernelOf<In<f32, 4>, Out<T, 4>, Scalar<f32>, std::optional<In<i32, 1>>> query_gradients;
};

/// Adds the partial sums of the gradients of sinks in the order of batch entries and tiles.
KernelOf<In<f32, 3>, Out<f32, 1>> sink_gradients();

/// Returns the columns of the one or two tiles into which those of head dim `dim` are divided.
/// Warpgroups divide the columns of each part of dQ, so that they must be a power of two.
std::vector<int> backward_parts(std::int64_t dim);
/// Returns the columns of all parts.
int backward_columns(std::int64_t dim);

/// Returns the elements of a tile of dQ, or of its transpose, as the workspace has them: the
/// elements that a thread holds after an MMA are in runs of four, and those of a warp are
/// consecutive, so that each instruction adds 512 bytes of memory.
Tile in_fragment_order(const Tile& sums);

}  // namespace tegula::kernels
