// Rules for the configurations of a GEMM.
#include <algorithm>
#include <bit>

#include "autotune/matmul/space.h"
#include "autotune/matmul/work.h"
#include "tegula/int_math.h"

namespace tegula::autotune {
namespace {

using P = MatmulProblem;
using C = MatmulConfig;

/// Rows of A up to which every ring depth is a candidate, and tiles have the minimum height.
constexpr int kFewRows = 64;
/// Maximum rows of an mma.sync tile for few rows.
constexpr int kMmaSyncRows = 32;
/// 16-bit elements per cp.async copy.
constexpr int kPiece = 8;

bool is_pow2(int x) { return std::has_single_bit(static_cast<unsigned>(x)); }

/// Returns true if wgmma does not support these types; each type then has one mma.sync or FMA tile.
bool lacks_wgmma(const P& p, const Limits& gpu) {
  return !gpu.target->has_wgmma || (p.operands == DType::f32 && !p.tf32);
}
/// Returns true for tiles of 16 or 32 rows, which use mma.sync. An alternative to wgmma for few
/// rows of A.
bool has_mma_sync_rows(const C& c) { return !c.swap_ab && c.bm <= kMmaSyncRows; }
bool is_tall_swap(const C& c) { return c.swap_ab && c.bm > kFewRows; }
bool is_direct(const C& c) { return c.operands == OperandPath::direct; }
bool is_wgmma(const P& p, const C& c, const Limits& gpu) {
  return !lacks_wgmma(p, gpu) && !has_mma_sync_rows(c) && !is_direct(c);
}

/// Returns the usual block_k: 128 bytes for wgmma, and mostly 64 bytes for mma.sync and FMA, whose
/// operands pass through registers.
int usual_depth(const P& p, const Limits& gpu) {
  const int bytes = size_bytes(p.operands);
  if (!lacks_wgmma(p, gpu)) return kBlockKBytes / bytes;
  return p.operands == DType::f32 && !p.tf32 ? 16 : bytes == 1 ? 64 : 32;
}

/// Returns true if k is so small that single-element stores and repacking dominate the product.
bool is_shallow(const P& p) {
  constexpr int kShallow = 192;
  return p.repacks() && size_bytes(p.operands) == 2 && p.k <= kShallow && p.gates == 1;
}

// ---- k-iterations ----
/// Returns true if no TMA box has this depth. The bytes along k must be the width of a swizzle, or
/// two boxes of 128 bytes.
bool has_depth_of_no_box(const P& p, const C& c, const Limits& gpu) {
  if (lacks_wgmma(p, gpu)) return c.bk != usual_depth(p, gpu);
  const int bytes = c.bk * size_bytes(p.operands);
  return bytes < 32 || bytes > 2 * kBlockKBytes;
}
bool has_other_depth(const P& p, const C& c, const Limits& gpu) {
  return c.bk != usual_depth(p, gpu);
}

// ---- tiles --------------------------------------------------------------------------------------

bool swaps_gates(const P& p, const C& c, const Limits& gpu) {
  return c.swap_ab && (p.gates > 1 || lacks_wgmma(p, gpu));
}

/// Returns true if wgmma's columns beyond 32 are multiples of 16.
bool is_integer_mma(const P& p) { return p.operands == DType::i8 || p.operands == DType::u8; }

bool has_rows_of_no_mma(const P& p, const C& c, const Limits& gpu) {
  if (lacks_wgmma(p, gpu)) return c.bm != 64 && c.bm != 128;
  if (has_mma_sync_rows(c)) return c.bm != 16 && c.bm != 32;
  if (c.swap_ab && is_integer_mma(p) && c.bm > 32 && c.bm % 16 != 0) return true;
  return !c.swap_ab && (c.bm % ir::kWgmmaRows != 0 || c.bm > 192);
}

bool has_no_pieces(const P& p, const C& c, const Limits& gpu) {
  if (lacks_wgmma(p, gpu) || !has_mma_sync_rows(c)) return false;
  return size_bytes(p.operands) != 2 || p.b_k_major || p.is_batched || p.gates > 1 || p.repacks() ||
         p.n % kPiece != 0 || (p.a_k_major ? p.k : p.m) % kPiece != 0;
}

bool has_no_box_of_rows(const P& p, const C& c, const Limits&) {
  return c.swap_ab && !p.a_k_major && (c.bm < 16 || (c.bm % 64 != 0 && !is_pow2(c.bm)));
}

/// Returns the wgmma columns for few rows of A: a multiple of 8, or of 16 beyond 32 for integers.
/// If rows are contiguous in memory, TMA writes them with a swizzle, whose width is a power of two.
int least_swapped_rows(const P& p) {
  const int rows = std::max(8, static_cast<int>(round_up(p.m, 8)));
  if (!p.a_k_major)
    return std::max(16, static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows))));
  return is_integer_mma(p) && rows > 32 ? round_up(rows, 16) : rows;
}

/// Returns true if half of the tile would be empty, or if a lower tile suffices.
bool is_too_high(const P& p, const C& c, const Limits& gpu) {
  if (lacks_wgmma(p, gpu)) return c.bm != (size_bytes(p.operands) == 2 && p.m > 64 ? 128 : c.bm);
  if (is_shallow(p)) return c.swap_ab || c.bm != 64;
  if (has_mma_sync_rows(c)) return c.bm != (p.m <= 16 ? 16 : 32) || p.m > kMmaSyncRows;
  if (p.m > kFewRows) return c.swap_ab ? c.bm <= kFewRows || 2 * p.m <= c.bm : 2 * p.m <= c.bm;
  if (!c.swap_ab) return c.bm > kFewRows || (p.m <= kMmaSyncRows && p.gates == 1);
  return c.bm != least_swapped_rows(p);
}

bool has_no_tile_of_mma_sync(const P& p, const C& c, const Limits& gpu) {
  if (!lacks_wgmma(p, gpu)) return false;
  if (c.bn != 64 && c.bn != 128) return true;
  if (p.operands == DType::f32) return c.bm != c.bn || c.bm != (p.tf32 ? 128 : 64);
  if (size_bytes(p.operands) == 1) return c.bm != 64 || c.bn != 64;
  return c.bm != (p.m <= 64 ? 64 : 128) || c.bn != (p.n <= 64 ? 64 : 128);
}

bool has_columns_of_no_mma(const P& p, const C& c, const Limits& gpu) {
  if (lacks_wgmma(p, gpu)) return false;
  if (has_mma_sync_rows(c)) return c.bn != 64;
  return c.swap_ab && c.bn != 64 && c.bn != 128 && c.bn != 192 && c.bn != 256;
}

/// Returns true if the accumulator exceeds the registers of a consumer thread: 160 with three
/// warpgroups, 112 with four.
bool has_no_room_for_accumulator(const P& p, const C& c, const Limits& gpu) {
  if (lacks_wgmma(p, gpu)) return false;
  constexpr int kPromotionColumns = 128;
  const AccumulatorShape t = accumulator_of(p, c);
  const int most = t.rows > 192 ? 136 : t.rows > 128 ? 200 : ir::kMaxWgmmaColumns;
  if (p.fp32_promotion && std::max(c.bn, t.columns) > kPromotionColumns) return true;
  return t.columns > most;
}

bool has_chunks_of_b(const P& p, const C& c, const Limits& gpu) {
  if (lacks_wgmma(p, gpu) || c.swap_ab || p.b_k_major) return false;
  return !is_pow2(c.bn) && c.bn != 192 && !(p.gates > 1 && c.bn == 96);
}

bool spills_beside_matrices(const P& p, const C& c, const Limits&) {
  constexpr int kPlainWidth = 176;
  return p.epilogue_matrices > 0 && (c.bn == kPlainWidth || is_tall_swap(c));
}

bool is_too_wide(const P& p, const C& c, const Limits& gpu) {
  return !lacks_wgmma(p, gpu) && c.bn > 64 && 2 * p.n <= c.bn;
}

/// Three warpgroups were faster only for rows that are not 128-byte aligned, because larger tiles
/// make fewer requests for them.
bool has_third_warpgroup_for_nothing(const P& p, const C& c, const Limits& gpu) {
  if (lacks_wgmma(p, gpu) || c.swap_ab || accumulator_of(p, c).rows != 192) return false;
  const bool has_split_lines = p.a_lines != LinePhase::whole || p.b_lines != LinePhase::whole;
  return !has_split_lines || c.bn < 128 || p.gates > 1;
}
/// Tall tiles with swapped operands only help calls of a single wave, which their intermediate
/// heights can fill.
bool is_tall_for_nothing(const P& p, const C& c, const Limits& gpu) {
  return is_tall_swap(c) &&
         (c.bn < 128 || c.bm % ir::kWgmmaRows == 0 || p.is_batched || tiles_of(p, c) > gpu.num_sms);
}

// ---- operands -----------------------------------------------------------------------------------

bool reads_directly_for_nothing(const P& p, const C& c, const Limits& gpu) {
  return is_direct(c) &&
         (!p.repacks() || size_bytes(p.operands) != 2 || lacks_wgmma(p, gpu) || p.gates > 1);
}

bool is_large_for_shallow(const P& p, const C& c, const Limits& gpu) {
  if (lacks_wgmma(p, gpu)) return false;
  if (is_direct(c) && !is_shallow(p)) return true;
  return is_shallow(p) && (c.swap_ab || c.bm != 64 || c.bn != 64);
}

// ---- split-K ------------------------------------------------------------------------------------

/// Stream-K waits for partial accumulators; it was never faster than whole tiles.
bool is_streamed_for_nothing(const P&, const C& c, const Limits&) {
  return c.split == SplitK::stream;
}
bool splits_batches(const P& p, const C& c, const Limits& gpu) {
  if (c.split == SplitK::none) return false;
  return p.is_batched || p.gates > 1 || is_direct(c) || lacks_wgmma(p, gpu);
}
/// Without cluster split-K, the plan swaps operands of few rows to use wgmma.
bool is_exchanged_by_plan(const P& p, const C& c, const Limits& gpu) {
  return !lacks_wgmma(p, gpu) && has_mma_sync_rows(c) && c.split != SplitK::cluster;
}
bool splits_many_tiles(const P& p, const C& c, const Limits& gpu) {
  if (c.split == SplitK::none) return false;
  const std::int64_t waves = has_mma_sync_rows(c) ? 4 : 2;
  return tiles_of(p, c) > waves * gpu.num_sms;
}
bool has_parts_of_nothing(const P&, const C& c, const Limits&) {
  return c.parts > 1 && c.split == SplitK::none;
}
bool splits_into_one(const P&, const C& c, const Limits&) {
  return c.parts == 1 && c.split != SplitK::none;
}
/// Returns true if cluster split-K does not support the parts or the tile. The CTAs of a cluster
/// divide the rows of the accumulator among themselves.
bool is_no_cluster(const P& p, const C& c, const Limits&) {
  if (c.split != SplitK::cluster) return false;
  return (c.parts != 2 && c.parts != 4 && c.parts != 8) || !is_pow2(accumulator_of(p, c).rows);
}
bool has_short_parts(const P& p, const C& c, const Limits&) {
  constexpr int kMinTripsOfPart = 8;
  return c.parts > 1 && p.k < static_cast<std::int64_t>(kMinTripsOfPart) * c.bk * c.parts;
}
bool has_waves_of_parts(const P& p, const C& c, const Limits& gpu) {
  const std::int64_t waves = has_mma_sync_rows(c) ? 8 : 3;
  return c.parts > 1 && tiles_of(p, c) * c.parts > waves * gpu.num_sms;
}

// ---- schedule -----------------------------------------------------------------------------------

bool is_no_pingpong(const P& p, const C& c, const Limits& gpu) {
  if (!c.pingpong) return false;
  const AccumulatorShape t = accumulator_of(p, c);
  // The results of a gated unit need fewer registers if the tile has only 64 rows.
  const bool is_square = t.rows == 128 && t.columns == 128 && p.gates == 1;
  const bool fits = is_square || (t.rows == 64 && t.columns == 256);
  return !fits || c.swap_ab || c.parts > 1 || p.fp32_promotion || !is_wgmma(p, c, gpu);
}
bool has_one_tile_for_each_sm(const P& p, const C& c, const Limits& gpu) {
  return c.pingpong && tiles_of(p, c) <= gpu.num_sms;
}
bool is_no_multicast(const P& p, const C& c, const Limits& gpu) {
  const bool keeps_ctas_apart = c.split == SplitK::none || c.split == SplitK::partials;
  return c.multicast != Multicast::none && (!keeps_ctas_apart || !is_wgmma(p, c, gpu));
}
bool has_no_neighbour(const P& p, const C& c, const Limits&) {
  return c.multicasts() && !has_shared_operand(p, c);
}

/// If an epilogue reads matrices, these also use L2 bandwidth, and multicast of B makes ping-pong
/// tiles 1 to 7 % faster (bench/results/sweeps/2026-11-22-h200-alternate-epilogues.jsonl).
bool keeps_b_beside_matrices(const P& p, const C& c, const Limits&) {
  return c.pingpong && p.epilogue_matrices > 0 && p.m > c.bm && c.multicast == Multicast::none;
}

bool has_ring_of_other_engine(const P& p, const C& c, const Limits& gpu) {
  constexpr int kMinStages = 3, kMmaSyncStages = 4;
  const bool is_planned = c.pingpong || is_direct(c) || lacks_wgmma(p, gpu);
  if (is_planned || c.stages == 0) return (c.stages == 0) != is_planned;
  return c.stages < kMinStages || (has_mma_sync_rows(c) && c.stages > kMmaSyncStages);
}
bool is_deeper_than_shared_memory(const P& p, const C& c, const Limits& gpu) {
  return c.stages > 0 && c.stages > stages_that_fit(p, c, gpu.target);
}
bool shares_sm(const P& p, const C& c, const Limits& gpu) {
  return c.multicast != Multicast::none && !is_persistent(p, c, gpu.target);
}
/// Returns true if the ring can have one more stage without fewer resident CTAs, and there is a
/// k-iteration to fill it.
bool has_room_for_stage(const P& p, const C& c, const Limits& gpu) {
  if (c.stages == 0 || p.m <= kFewRows || has_mma_sync_rows(c)) return false;
  C deeper = c;
  ++deeper.stages;
  const std::int64_t trips = ceil_div(ceil_div(p.k, c.bk), c.parts);
  const bool is_one_wave = tiles_of(p, c) * c.parts <= gpu.num_sms;
  return (deeper.stages <= trips || !is_one_wave) &&
         deeper.stages <= stages_that_fit(p, c, gpu.target) &&
         (is_one_wave || ctas_per_sm(p, deeper, gpu.target) == ctas_per_sm(p, c, gpu.target));
}

/// TMA stores make ping-pong kernels faster if rows have at least kRowBytes along k, because the
/// epilogue then has time for them: by 0.5 %, or by 1 to 5 % if the epilogue reads matrices
/// (bench/results/sweeps/2026-11-22-h200-tma-store.jsonl, 2026-11-24-h200-groups.jsonl).
bool stores_otherwise(const P& p, const C& c, const Limits&) {
  constexpr std::int64_t kRowBytes = 4096;
  const bool pays = c.pingpong && p.gates == 1 && p.k * size_bytes(p.operands) >= kRowBytes;
  return c.tma_store != pays;
}

bool groups_otherwise(const P&, const C& c, const Limits&) { return c.group_m != C().group_m; }

using enum Severity;
namespace axis = matmul_axis;
constexpr MatmulRule kRules[] = {
    {"depth", "no box of TMA has so many bytes along k, and mma.sync has one depth", refused,
     axis::bk, has_depth_of_no_box},
    {"usual_depth", "an iteration of 128 bytes along k is as long as its barriers want", dominated,
     axis::bk, has_other_depth},
    {"gates_swapped", "operands are exchanged for wgmma and one product only", refused,
     axis::swap_ab, swaps_gates},
    {"rows", "no matrix instruction has so many rows", refused, axis::bm, has_rows_of_no_mma},
    {"pieces", "cp.async copies 16 bytes of matrices whose columns are contiguous in B", refused,
     axis::bm, has_no_pieces},
    {"box_of_rows", "TMA has no swizzle for boxes of so many rows", refused, axis::bm,
     has_no_box_of_rows},
    {"height", "half of the tile would be empty, or a lower one serves", dominated, axis::bm,
     is_too_high},
    {"mma_sync_tile", "other tiles of mma.sync spill, or leave registers unused", degraded,
     axis::bn, has_no_tile_of_mma_sync},
    {"columns", "no matrix instruction has so many columns here", refused, axis::bn,
     has_columns_of_no_mma},
    {"accumulator", "the accumulator leaves a thread no registers", degraded, axis::bn,
     has_no_room_for_accumulator},
    {"chunks_of_b", "rows of B that are no multiple of 128 bytes are loaded in chunks of 64",
     dominated, axis::bn, has_chunks_of_b},
    {"epilogue_registers", "the epilogue's matrices spill beside such a tile", degraded, axis::bn,
     spills_beside_matrices},
    {"width", "half of the tile would be empty", dominated, axis::bn, is_too_wide},
    {"warpgroups", "three warpgroups gain where rows are not 128-byte aligned", dominated, axis::bn,
     has_third_warpgroup_for_nothing},
    {"tall_swap", "exchanged operands gain where one wave of their tiles fills the GPU", dominated,
     axis::bn, is_tall_for_nothing},
    {"direct", "TMA takes the operands, or they have no 16 bits", refused, axis::operands,
     reads_directly_for_nothing},
    {"shallow", "a small k is for small tiles, whose stores of single elements overlap", dominated,
     axis::operands, is_large_for_shallow},
    {"split_batch", "k is divided for single products of wgmma only", refused, axis::split,
     splits_batches},
    {"streamed", "parts or whole tiles were as fast everywhere", dominated, axis::split,
     is_streamed_for_nothing},
    {"few_rows", "few rows are exchanged for wgmma unless a cluster divides k", dominated,
     axis::split, is_exchanged_by_plan},
    {"split_waves", "whole tiles fill the GPU", dominated, axis::split, splits_many_tiles},
    {"parts", "only a divided k has parts", refused, axis::parts, has_parts_of_nothing, true},
    {"one_part", "a divided k has several parts", refused, axis::parts, splits_into_one},
    {"short_parts", "a part is too short to fill a ring", dominated, axis::parts, has_short_parts,
     true},
    {"waves_of_parts", "fewer parts fill the GPU", dominated, axis::parts, has_waves_of_parts,
     true},
    {"cluster", "2, 4 or 8 CTAs of a cluster cut rows of a power of two", refused, axis::parts,
     is_no_cluster},
    {"pingpong", "one warpgroup holds a tile of 128x128 or 64x256", refused, axis::pingpong,
     is_no_pingpong},
    {"pingpong_tiles", "ping-pong takes more tiles than SMs", dominated, axis::pingpong,
     has_one_tile_for_each_sm},
    {"multicast", "operands are multicast by whole tiles of wgmma", refused, axis::multicast,
     is_no_multicast},
    {"neighbour", "no two consecutive tiles share an operand", dominated, axis::multicast,
     has_no_neighbour},
    {"matrices", "ping-pong tiles beside matrices multicast", dominated, axis::multicast,
     keeps_b_beside_matrices},
    {"ring", "the engine's ring has other stages", refused, axis::stages, has_ring_of_other_engine},
    {"shared_memory", "the ring does not fit shared memory", refused, axis::stages,
     is_deeper_than_shared_memory, true},
    {"shared_sm", "CTAs that multicast fill an SM", refused, axis::stages, shares_sm},
    {"shallow_ring", "a deeper ring takes no more room", dominated, axis::stages,
     has_room_for_stage},
    {"store", "stores by TMA are for ping-pong tiles of long rows", dominated, axis::tma_store,
     stores_otherwise},
    {"group", "concurrent tiles share operands in L2 in groups of eight rows", dominated,
     axis::group_m, groups_otherwise},
};

}  // namespace

std::span<const MatmulRule> matmul_rules() { return kRules; }

}  // namespace tegula::autotune
