#pragma once
#include <optional>

/// Plan fields that the author of a kernel sets instead of the compiler.
namespace tegula {

/// Plan fields of a kernel. The compiler chooses those that are not set. explain() prints the whole
/// plan of a kernel with the reasons.
struct PlanPatch {
  /// Warps that compute one tile.
  std::optional<int> num_warps{};
  /// CTAs that must fit on an SM; limits the registers of a thread.
  std::optional<int> min_ctas_per_sm{};
  /// Slots of each operand ring; 1: no pipelining.
  std::optional<int> stages{};
  /// Slots of the ring of the second MMA (GEMM1) of back-to-back GEMMs; 0: as many as `stages`.
  std::optional<int> late_stages{};
  /// Slots of stationary operands (loaded once per tile); 2: the next tile's are loaded during this
  /// one.
  std::optional<int> once_stages{};
  /// Warps along the rows of the accumulator; 0: chosen from the tile.
  std::optional<int> warps_m{};
  /// Warps along the columns of the accumulator; warps_m * warps_n = num_warps.
  std::optional<int> warps_n{};
  /// A tile whose layout is narrower than the widest memory access is converted in shared memory
  /// before its store; otherwise lanes exchange registers to widen it.
  std::optional<bool> stage_stores{};
  /// GEMMs compute the transposed product (swap A/B), so that A's rows are the columns of the MMA:
  /// for tiles with fewer rows than a warpgroup computes.
  std::optional<bool> swap_ab{};
  /// Dots in loops use wgmma on operands that TMA loads (sm_90a); requires warps_n = 1 and 16 rows
  /// per warp.
  std::optional<bool> wgmma{};
  /// Warps of the producer role, which issue TMA loads and do nothing else; 0: a consumer thread
  /// issues them.
  std::optional<int> producer_warps{};
  /// Registers per consumer thread after setmaxnreg, which applies to whole warpgroups; 0: no
  /// reallocation.
  std::optional<int> consumer_registers{};
  /// Warpgroups issue their MMAs in a fixed order (named barriers), so that the softmax of one
  /// overlaps the MMAs of another (FlashAttention-3, 3.1).
  std::optional<bool> warp_scheduler_barrier{};
  /// Row reductions that a loop carries stay partial results of each thread, and are reduced across
  /// lanes and warps after the loop.
  std::optional<bool> defer_cross_lane_reductions{};
  /// A CTA that fills an SM computes many tiles, one after another: the loads of the next tile
  /// overlap the epilogue of this one.
  std::optional<bool> persistent{};
  /// The producer thread determines the next tile and its metadata one tile ahead, for work that
  /// only the device knows: CTAs take tiles from a counter in memory, and clusters that multicast
  /// take them round-robin; otherwise the tile scheduler is static.
  std::optional<bool> dynamic_scheduler{};
  /// The last GEMM1 of a tile and its epilogue overlap the first GEMM0 of the next tile (persistent
  /// kernels, back-to-back GEMMs).
  std::optional<bool> overlap_epilogue{};
  /// Columns of an epilogue subtile; subtiles are computed and stored one after another, with loads
  /// one subtile ahead; 0: all columns.
  std::optional<int> epilogue_tile_n{};
  /// A persistent kernel stores results by TMA from staging buffers of each warpgroup, which
  /// overlaps later work; otherwise from registers.
  std::optional<bool> tma_store{};
  /// Auxiliary loads of a mainloop, such as a bias, are loaded by TMA into a ring; otherwise
  /// threads load them where they use them.
  std::optional<bool> tma_aux_loads{};
  /// A persistent kernel runs in clusters of two CTAs on neighbouring tiles; each CTA loads half of
  /// a common operand for both.
  std::optional<bool> multicast{};
  /// Ping-pong: each warpgroup computes a whole tile, and two warpgroups alternate, so that the
  /// epilogue of one tile overlaps the mainloop of the next.
  std::optional<bool> pingpong{};

  friend bool operator==(const PlanPatch&, const PlanPatch&) = default;
};

}  // namespace tegula
