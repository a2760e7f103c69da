#pragma once
#include <compare>
#include <cstdint>
#include <string>

#include "tegula/device_profile.h"
#include "tegula/dtype.h"

/// Tiles and decomposition of GEMMs, and the choice of the fastest.
namespace tegula {

/// Decomposition of a GEMM: tiles of bm x bn, k-iterations of bk, and split-K over `split_k` CTAs
/// whose partial accumulators (f32 or i32) a second kernel adds, or the CTAs themselves if they are
/// `split_k_in_cluster`.
struct MatmulConfig {
  int bm = 128, bn = 256, bk = 64;
  int split_k = 1;
  /// Swap A/B: columns of B lie along the rows of the tensor cores' tiles, which are 64 or more:
  /// for few rows of A, or few columns of B. bn of 64, 128, 192 or 256, bm of 8 to 256 in steps of
  /// 8.
  bool swap_ab = false;
  /// Cluster split-K: the CTAs of a tile are a cluster, of 2, 4 or 8, and each adds and stores a
  /// slice of it, 1 / split_k of the rows (of the columns if swapped). Needs sm_90; matrices
  /// without batches.
  bool split_k_in_cluster = false;
  /// Stages of the operand ring, 2 to 8, as far as shared memory has room for them; 0: up to 4.
  int stages = 0;
  /// Operands of 16 bits that TMA cannot load are read as stored, element by element, by the
  /// mma.sync kernel, instead of repacked for wgmma: one launch, for a small k.
  bool no_repack = false;
  /// CTAs of tiles below each other form clusters of two and multicast the columns of B that both
  /// need, half each (TMA multicast; no cluster split-K). Needs sm_90 and tiles that fill an SM;
  /// elsewhere it changes nothing.
  bool multicast = false;
  /// Stream-K: the k-iterations of all tiles are divided evenly over this many CTAs, as many as the
  /// GPU has SMs; the last CTA of a tile adds the partial accumulators. `split_k`,
  /// `split_k_in_cluster` and `multicast` have no meaning then. 0: each tile is one CTA's.
  int stream_k_ctas = 0;
  /// Ping-pong: a tile is one warpgroup's work, of bm x bn up to 128x128 or 64x256, and two
  /// warpgroups take tiles alternately: an epilogue overlaps the next tile's mainloop. Needs sm_90;
  /// elsewhere it changes nothing.
  bool pingpong = false;
  /// Results go through shared memory and from there by TMA, where rows of C end with 16 bytes.
  /// Needs sm_90 and tiles that fill an SM; elsewhere it changes nothing.
  bool tma_store = false;
  /// Rows of tiles that are finished together, column by column (Triton's GROUP_M): concurrent
  /// tiles share operands in L2 if together they are about as high as wide. 1 (row by row), 2, 4,
  /// 6, 8, 10, 12, 16, 20, 24 or 32; without effect on batches without stream-K, and with split-K
  /// by a second kernel.
  int group_m = 8;
  std::string str() const;
  /// The numbers that kernels choose by, and from which: for `tuned`.
  template <class Config, class Visit>
  static void visit_axes(Config& c, const Visit& visit) {
    const std::initializer_list<int> extents{8,   16,  24,  32,  40,  48,  56,  64,  72,  80,  88,
                                             96,  104, 112, 120, 128, 136, 144, 152, 160, 168, 176,
                                             184, 192, 200, 208, 216, 224, 232, 240, 248, 256};
    visit("BM", c.bm, extents);
    visit("BN", c.bn, extents);
    visit("BK", c.bk, {8, 16, 32, 64, 128, 256});
    visit("STAGES", c.stages, {0, 2, 3, 4, 5, 6, 7, 8});
    visit("SWAP_AB", c.swap_ab, {0, 1});
    visit("MULTICAST", c.multicast, {0, 1});
    visit("PINGPONG", c.pingpong, {0, 1});
    visit("TMA_STORE", c.tma_store, {0, 1});
    visit("GROUP_M", c.group_m, {1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32});
  }
  friend bool operator==(const MatmulConfig&, const MatmulConfig&) = default;
  friend auto operator<=>(const MatmulConfig&, const MatmulConfig&) = default;
};

/// The properties of a GEMM that the choice of a configuration depends on.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  DType operands = DType::bf16;
  /// The GPU has wgmma, and the operands are not f32 to be multiplied by FMA.
  bool has_wgmma = true;
  /// k is contiguous in B: its columns come in any number at no cost.
  bool b_k_major = false;
  /// k is contiguous in A: the same of its rows, where operands are exchanged.
  bool a_k_major = true;
  /// Rows of A, and of B, begin at multiples of 128 bytes, the lines of the L2.
  bool is_a_line_aligned = true, is_b_line_aligned = true;
  /// Products of f32 on tensor cores, which leave out the last 13 bits; else by FMA.
  bool tf32 = false;
  /// Two accumulators per tile, for FP32 promotion: tiles are half as wide.
  bool fp32_promotion = false;
  /// Whether split-K is ruled out.
  bool no_split_k = false;
  /// The epilogue reads or writes tensors besides the result.
  bool has_epilogue_tensors = false;
  /// Some operand must be repacked for the tensor cores.
  bool needs_repack = false;
  /// The GPU: what was measured on its model, and its multiprocessors.
  const DeviceProfile* profile = &host_profile();
  int num_sms = profile->num_sms;
  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
};

/// The configuration with the shortest estimated time: waves of tiles, each bound by the tensor
/// cores, by bytes from L2 or by memory latency, and all of them by memory bandwidth; for a small m
/// with large weights, a measured one. A thread remembers its latest choices.
MatmulConfig matmul_config(const MatmulProblem& problem);
/// The configuration for two such GEMMs on one A that a CTA computes at once: bn of each.
MatmulConfig gated_matmul_config(const MatmulProblem& problem);

namespace detail {

/// Whether an argument of an epilogue is as large as the result, unlike scalars and vectors.
template <class Argument>
bool is_matrix(const Argument& argument) {
  if constexpr (requires { argument.rank(); })
    return argument.rank() > 1;
  else
    return false;
}

}  // namespace detail

}  // namespace tegula
