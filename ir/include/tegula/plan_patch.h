#pragma once
#include <optional>

/// Fields of a kernel's plan that are set, not chosen.
namespace tegula {

/// The schedule of a kernel as far as it is given: fields that are left out are chosen when the
/// kernel is compiled. explain() prints a kernel's whole plan, and why it is so.
struct PlanPatch {
  /// Warps that compute one tile.
  std::optional<int> num_warps{};
  /// CTAs that must fit on an SM: the assembler keeps to as many registers as that leaves.
  std::optional<int> min_ctas_per_sm{};
  /// Slots of every operand ring; 1: no pipelining.
  std::optional<int> stages{};
  /// Slots of the ring of the second MMA (GEMM1) of back-to-back GEMMs; 0: as many as stages.
  std::optional<int> late_stages{};
  /// Slots of stationary operands, which are loaded once per tile: with two, the next tile's are
  /// loaded early.
  std::optional<int> once_stages{};
  /// Warps along the accumulator's rows, of warps_m * warps_n = num_warps; 0: chosen from the tile.
  std::optional<int> warps_m{};
  /// Warps along its columns.
  std::optional<int> warps_n{};
  /// A tile whose layout is narrower than the widest memory access is converted through shared
  /// memory before its store; else lanes exchange registers to widen it.
  std::optional<bool> stage_stores{};
  /// GEMMs are computed as their transposes (swap A/B), A's rows along the tensor cores' columns:
  /// for tiles of fewer rows than a warpgroup computes.
  std::optional<bool> swap_ab{};
  /// Dots in loops become wgmma on operands loaded by TMA (sm_90a); needs warps_n = 1 and 16 rows a
  /// warp.
  std::optional<bool> wgmma{};
  /// Warps of the producer role, which issue TMA loads and nothing else; 0: a consumer thread
  /// issues them.
  std::optional<int> producer_warps{};
  /// Registers per consumer thread after setmaxnreg, which works on whole warpgroups; 0: no
  /// reallocation.
  std::optional<int> consumer_registers{};
  /// Warpgroups issue their MMAs in a fixed order (named barriers), so that the softmax of one
  /// overlaps the MMAs of another (FlashAttention-3, 3.1).
  std::optional<bool> warp_scheduler_barrier{};
  /// Row reductions carried by a loop stay per-thread partial sums and are reduced across lanes and
  /// warps after the loop.
  std::optional<bool> defer_cross_lane_reductions{};
  /// One CTA computes many tiles, one after another, if it fills an SM: the loads of the next tile
  /// overlap the epilogue of this one.
  std::optional<bool> persistent{};
  /// The producer thread finds out ahead which tile is next and what is known of it: CTAs take
  /// tiles from a counter in memory, for work that is known on the device only, clusters that
  /// multicast in turn; else the tile scheduler is static.
  std::optional<bool> dynamic_scheduler{};
  /// The last GEMM1 of a tile and its epilogue overlap the first GEMM0 of the next tile (persistent
  /// kernels, back-to-back GEMMs).
  std::optional<bool> overlap_epilogue{};
  /// Columns of an epilogue subtile, which is computed and stored at a time, with loads one subtile
  /// ahead; 0: all.
  std::optional<int> epilogue_tile_n{};
  /// In a persistent kernel, results go through staging buffers of each warpgroup and from there by
  /// TMA, overlapping later work; else from registers.
  std::optional<bool> tma_store{};
  /// Auxiliary loads of a mainloop, such as a bias, go through a TMA ring of their own; else
  /// threads load them where they need them.
  std::optional<bool> tma_aux_loads{};
  /// CTAs of a persistent kernel are clusters of two on neighbouring tiles, and multicast common
  /// operands: each loads one half, for both.
  std::optional<bool> multicast{};
  /// Ping-pong: each warpgroup computes a whole tile, and two warpgroups alternate, so that the
  /// epilogue of one tile overlaps the mainloop of the next.
  std::optional<bool> pingpong{};

  friend bool operator==(const PlanPatch&, const PlanPatch&) = default;
};

}  // namespace tegula
