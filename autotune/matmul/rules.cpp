// Rules for the configurations of a GEMM: why a configuration is not in the space of a problem.
#include <algorithm>
#include <bit>

#include "autotune/matmul/space.h"
#include "autotune/matmul/work.h"
#include "tegula/int_math.h"

namespace tegula::autotune {
namespace {

// Limits of compiled kernels (H200, LLVM and NVRTC): larger tiles spill registers.
/// Columns of the largest accumulator, by warpgroups that share it (64 rows each).
constexpr int kColumnsOfTwoWarpgroups = ir::kMaxWgmmaColumns, kColumnsOfThree = 200,
              kColumnsOfFour = 136;
/// Columns of the largest accumulator of fp8 that is promoted, and so held twice.
constexpr int kPromotedColumns = 128;
/// Columns of B for which the matrices that an epilogue reads spill.
constexpr int kSpillingColumns = 176;

// Limits of instructions and copies.
/// Rows of a tile by wgmma without swapped operands.
constexpr int kWgmmaTileRows = 3 * ir::kWgmmaRows;
/// Rows of a tile by mma.sync on a GPU with wgmma, which is for few rows of A.
constexpr int kMmaSyncRows = 32;
/// 16-bit elements of a copy by cp.async, 16 bytes.
constexpr int kPieceElements = 8;
/// Bytes along k of a TMA box: from the narrowest swizzle to two boxes of 128 bytes.
constexpr int kMinDepthBytes = 32, kMaxDepthBytes = 2 * kBlockKBytes;

// Choices from measurements (bench/results/sweeps).
/// Rows of A up to which a tile has the least height that holds them, and any ring is a candidate.
constexpr int kFewRows = 64;
/// Largest k for which stores of single elements and repacking dominate the time of a product.
constexpr int kShallowK = 192;
/// Least iterations of a part of k: fewer do not fill the ring.
constexpr int kMinTripsOfPart = 8;
/// Tiles per SM up to which k is divided, and parts of tiles per SM; more by mma.sync.
constexpr int kDividedTiles = 2, kDividedTilesByMmaSync = 4, kPartsPerSm = 3,
              kPartsPerSmByMmaSync = 8;
/// Least bytes of a row along k for which ping-pong kernels store by TMA: the epilogue then has
/// time for it. Gains 0.5 %, or 1 to 5 % if the epilogue reads matrices
/// (2026-11-22-h200-tma-store.jsonl, 2026-11-24-h200-groups.jsonl).
constexpr std::int64_t kTmaStoreBytes = 4096;

bool is_pow2(int x) { return std::has_single_bit(static_cast<unsigned>(x)); }

/// A configuration, its problem and the GPU, with what several rules need.
struct GemmCandidate {
  const MatmulProblem& p;
  const MatmulConfig& c;
  const Limits& gpu;

  // ---- the problem
  int bytes() const { return size_bytes(p.operands); }
  /// wgmma supports these types. Other types and GPUs have one tile by mma.sync or FMA.
  bool has_wgmma() const { return gpu.target->has_wgmma && (p.operands != DType::f32 || p.tf32); }
  /// wgmma's columns beyond 32 are multiples of 16.
  bool is_integer() const { return p.operands == DType::i8 || p.operands == DType::u8; }
  bool is_shallow() const {
    return p.repacks() && bytes() == 2 && p.k <= kShallowK && p.gates == 1;
  }
  /// Returns k per iteration: 128 bytes by wgmma, and mostly 64 bytes by mma.sync and FMA, whose
  /// operands pass through registers.
  int usual_depth() const {
    if (has_wgmma()) return kBlockKBytes / bytes();
    return p.operands == DType::f32 && !p.tf32 ? 16 : bytes() == 1 ? 64 : 32;
  }

  // ---- the tile
  AccumulatorShape accumulator() const { return accumulator_of(p, c); }
  std::int64_t tiles() const { return tiles_of(p, c); }
  /// A tile of 16 or 32 rows by mma.sync, an alternative to wgmma for few rows of A.
  bool is_low() const { return !c.swap_ab && c.bm <= kMmaSyncRows; }
  bool is_low_beside_wgmma() const { return has_wgmma() && is_low(); }
  bool is_tall_swap() const { return c.swap_ab && c.bm > kFewRows; }
  bool is_direct() const { return c.operands == OperandPath::direct; }
  bool is_wgmma() const { return has_wgmma() && !is_low() && !is_direct(); }

  /// TMA loads k-major rows of A in any number. Rows that are contiguous along m instead are loaded
  /// with a swizzle of a power of two, or in chunks of 64.
  bool has_rows_of_boxes() const {
    return !c.swap_ab || p.a_k_major || (c.bm >= 16 && (c.bm % 64 == 0 || is_pow2(c.bm)));
  }
  bool has_rows_of_mma() const {
    if (!has_wgmma()) return c.bm == 64 || c.bm == 128;
    if (is_low()) return c.bm == 16 || c.bm == 32;
    if (!c.swap_ab) return c.bm % ir::kWgmmaRows == 0 && c.bm <= kWgmmaTileRows;
    return !is_integer() || c.bm <= 32 || c.bm % 16 == 0;
  }
  bool has_columns_of_mma() const {
    if (is_low_beside_wgmma()) return c.bn == 64;
    return !has_wgmma() || !c.swap_ab || (c.bn % 64 == 0 && c.bn <= 256);
  }
  /// cp.async can copy A and B in pieces.
  bool has_pieces() const {
    return bytes() == 2 && !p.b_k_major && !p.is_batched && p.gates == 1 && !p.repacks() &&
           p.n % kPieceElements == 0 && (p.a_k_major ? p.k : p.m) % kPieceElements == 0;
  }
  /// Returns the least height of a swapped tile that holds all rows of A.
  int least_swapped_rows() const {
    const int rows = std::max(8, static_cast<int>(round_up(p.m, 8)));
    if (!p.a_k_major)
      return std::max(16, static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows))));
    return is_integer() && rows > 32 ? round_up(rows, 16) : rows;
  }
  /// At least half of the tile's rows are used, and no lower tile holds all rows of A.
  bool has_useful_height() const {
    if (!has_wgmma()) return bytes() != 2 || p.m <= 64 || c.bm == 128;
    if (is_shallow()) return !c.swap_ab && c.bm == 64;
    if (is_low()) return p.m <= kMmaSyncRows && c.bm == (p.m <= 16 ? 16 : 32);
    if (p.m > kFewRows) return 2 * p.m > c.bm && (!c.swap_ab || c.bm > kFewRows);
    if (c.swap_ab) return c.bm == least_swapped_rows();
    return c.bm <= kFewRows && (p.m > kMmaSyncRows || p.gates > 1);
  }
  /// The only tile of mma.sync and FMA that neither spills nor leaves registers unused.
  bool is_tile_without_wgmma() const {
    if (p.operands == DType::f32) return c.bm == (p.tf32 ? 128 : 64) && c.bn == c.bm;
    if (bytes() == 1) return c.bm == 64 && c.bn == 64;
    return c.bm == (p.m <= 64 ? 64 : 128) && c.bn == (p.n <= 64 ? 64 : 128);
  }
  bool has_registers_for_accumulator() const {
    const auto [rows, columns] = accumulator();
    if (p.fp32_promotion && std::max(c.bn, columns) > kPromotedColumns) return false;
    return columns <= (rows > 3 * ir::kWgmmaRows   ? kColumnsOfFour
                       : rows > 2 * ir::kWgmmaRows ? kColumnsOfThree
                                                   : kColumnsOfTwoWarpgroups);
  }
  /// Rows of B are loaded as one box, or as a few.
  bool has_few_chunks_of_b() const {
    if (!has_wgmma() || c.swap_ab || p.b_k_major) return true;
    return is_pow2(c.bn) || c.bn == 192 || (p.gates > 1 && c.bn == 96);
  }
  /// Three warpgroups are faster only for rows that are not aligned to 128 bytes, because larger
  /// tiles make fewer requests for them.
  bool gains_third_warpgroup() const {
    const bool has_split_lines = p.a_lines != LinePhase::whole || p.b_lines != LinePhase::whole;
    return has_split_lines && c.bn >= 128 && p.gates == 1;
  }
  /// Heights between multiples of 64 can fill a single wave.
  bool gains_tall_swap() const {
    return c.bn >= 128 && c.bm % ir::kWgmmaRows != 0 && !p.is_batched && tiles() <= gpu.num_sms;
  }
  bool may_read_directly() const {
    return p.repacks() && bytes() == 2 && has_wgmma() && p.gates == 1;
  }

  // ---- parts of k
  bool is_divided() const { return c.split != SplitK::none; }
  bool may_divide() const { return !p.is_batched && p.gates == 1 && !is_direct() && has_wgmma(); }
  /// The CTAs of a cluster divide the rows of the accumulator among themselves.
  bool is_cluster() const {
    return (c.parts == 2 || c.parts == 4 || c.parts == 8) && is_pow2(accumulator().rows);
  }

  // ---- the schedule
  /// One warpgroup can compute a tile. Results of a gated unit need fewer registers if the tile has
  /// only 64 rows.
  bool may_pingpong() const {
    const auto [rows, columns] = accumulator();
    const bool fits = (rows == 128 && columns == 128 && p.gates == 1) ||
                      (rows == ir::kWgmmaRows && columns == ir::kMaxWgmmaColumns);
    return fits && !c.swap_ab && c.parts == 1 && !p.fp32_promotion && is_wgmma();
  }
  bool may_multicast() const {
    return (c.split == SplitK::none || c.split == SplitK::partials) && is_wgmma();
  }
  /// The compiler chooses the ring (0 stages) for some kernels; others have 3 stages or more.
  bool has_stages_of_engine() const {
    constexpr int kMinStages = 3, kMmaSyncStages = 4;
    const bool is_planned = c.pingpong || is_direct() || !has_wgmma();
    if (is_planned || c.stages == 0) return is_planned && c.stages == 0;
    return c.stages >= kMinStages && (!is_low() || c.stages <= kMmaSyncStages);
  }
  /// The ring can have one more stage without fewer resident CTAs, and there is an iteration of k
  /// to fill it.
  bool has_room_for_stage() const {
    if (c.stages == 0 || p.m <= kFewRows || is_low()) return false;
    MatmulConfig deeper = c;
    ++deeper.stages;
    if (deeper.stages > stages_that_fit(p, c, gpu.target)) return false;
    if (tiles() * c.parts <= gpu.num_sms)
      return deeper.stages <= ceil_div(ceil_div(p.k, c.bk), c.parts);
    return ctas_per_sm(p, deeper, gpu.target) == ctas_per_sm(p, c, gpu.target);
  }
};

/// Makes a rule from a lambda that returns true if a candidate breaks it.
template <class Broken>
constexpr MatmulRule rule(std::string_view name, std::string_view reason, Severity severity,
                          int last_axis, Broken /*is_broken*/, bool ends_axis = false) {
  return {name,
          reason,
          severity,
          last_axis,
          [](const MatmulProblem& p, const MatmulConfig& c, const Limits& gpu) {
            return Broken{}(GemmCandidate{p, c, gpu});
          },
          ends_axis};
}

using enum Severity;
namespace axis = matmul_axis;
using X = const GemmCandidate&;

constexpr MatmulRule kRules[] = {
    rule("depth", "no TMA box has so many bytes along k, and mma.sync has one depth", refused,
         axis::bk,
         [](X x) {
           const int depth = x.c.bk * x.bytes();
           return x.has_wgmma() ? depth < kMinDepthBytes || depth > kMaxDepthBytes
                                : x.c.bk != x.usual_depth();
         }),
    rule("usual_depth", "iterations of 128 bytes along k are faster", dominated, axis::bk,
         [](X x) { return x.c.bk != x.usual_depth(); }),
    rule("gates_swapped", "operands are swapped for wgmma and for a single product only", refused,
         axis::swap_ab, [](X x) { return x.c.swap_ab && (x.p.gates > 1 || !x.has_wgmma()); }),
    rule("rows", "no matrix instruction has so many rows", refused, axis::bm,
         [](X x) { return !x.has_rows_of_mma(); }),
    rule("pieces", "cp.async copies 16 bytes of matrices whose columns are contiguous in B",
         refused, axis::bm, [](X x) { return x.is_low_beside_wgmma() && !x.has_pieces(); }),
    rule("box_of_rows", "TMA has no swizzle for boxes of so many rows", refused, axis::bm,
         [](X x) { return !x.has_rows_of_boxes(); }),
    rule("height", "half of the tile would be empty, or a lower tile suffices", dominated, axis::bm,
         [](X x) { return !x.has_useful_height(); }),
    rule("mma_sync_tile", "other tiles of mma.sync spill, or leave registers unused", degraded,
         axis::bn, [](X x) { return !x.has_wgmma() && !x.is_tile_without_wgmma(); }),
    rule("columns", "no matrix instruction has so many columns here", refused, axis::bn,
         [](X x) { return !x.has_columns_of_mma(); }),
    rule("accumulator", "the accumulator leaves a thread no registers", degraded, axis::bn,
         [](X x) { return x.has_wgmma() && !x.has_registers_for_accumulator(); }),
    rule("chunks_of_b", "rows of B of other lengths are loaded in chunks of 64 elements", dominated,
         axis::bn, [](X x) { return !x.has_few_chunks_of_b(); }),
    rule("epilogue_registers", "matrices that the epilogue reads spill with this tile", degraded,
         axis::bn,
         [](X x) {
           return x.p.epilogue_matrices > 0 && (x.c.bn == kSpillingColumns || x.is_tall_swap());
         }),
    rule("width", "half of the tile would be empty", dominated, axis::bn,
         [](X x) { return x.has_wgmma() && x.c.bn > 64 && 2 * x.p.n <= x.c.bn; }),
    rule("warpgroups", "three warpgroups are faster only for rows that are not 128-byte aligned",
         dominated, axis::bn,
         [](X x) {
           return x.has_wgmma() && !x.c.swap_ab && x.accumulator().rows == kWgmmaTileRows &&
                  !x.gains_third_warpgroup();
         }),
    rule("tall_swap", "tall tiles of swapped operands are faster only in a single wave", dominated,
         axis::bn, [](X x) { return x.is_tall_swap() && !x.gains_tall_swap(); }),
    rule("direct", "direct reads are for 16-bit operands that TMA cannot load", refused,
         axis::operands, [](X x) { return x.is_direct() && !x.may_read_directly(); }),
    rule("shallow", "a small k has tiles of 64x64, and only a small k is read directly", dominated,
         axis::operands,
         [](X x) {
           if (!x.has_wgmma()) return false;
           if (!x.is_shallow()) return x.is_direct();
           return x.c.swap_ab || x.c.bm != 64 || x.c.bn != 64;
         }),
    rule("split_batch", "k is divided for single products of wgmma only", refused, axis::split,
         [](X x) { return x.is_divided() && !x.may_divide(); }),
    rule("streamed", "stream-K waits for partial sums and was never faster", dominated, axis::split,
         [](X x) { return x.c.split == SplitK::stream; }),
    rule("few_rows", "few rows are swapped for wgmma unless a cluster divides k", dominated,
         axis::split, [](X x) { return x.is_low_beside_wgmma() && x.c.split != SplitK::cluster; }),
    rule("split_waves", "whole tiles fill the GPU", dominated, axis::split,
         [](X x) {
           const int most = x.is_low() ? kDividedTilesByMmaSync : kDividedTiles;
           return x.is_divided() && x.tiles() > std::int64_t{most} * x.gpu.num_sms;
         }),
    rule(
        "parts", "only a divided k has parts", refused, axis::parts,
        [](X x) { return x.c.parts > 1 && !x.is_divided(); }, true),
    rule("one_part", "a divided k has several parts", refused, axis::parts,
         [](X x) { return x.c.parts == 1 && x.is_divided(); }),
    rule(
        "short_parts", "a part is too short to fill a ring", dominated, axis::parts,
        [](X x) {
          return x.c.parts > 1 && x.p.k < std::int64_t{kMinTripsOfPart} * x.c.bk * x.c.parts;
        },
        true),
    rule(
        "waves_of_parts", "fewer parts fill the GPU", dominated, axis::parts,
        [](X x) {
          const int most = x.is_low() ? kPartsPerSmByMmaSync : kPartsPerSm;
          return x.c.parts > 1 && x.tiles() * x.c.parts > std::int64_t{most} * x.gpu.num_sms;
        },
        true),
    rule("cluster", "a cluster has 2, 4 or 8 CTAs, which divide a power of two of rows", refused,
         axis::parts, [](X x) { return x.c.split == SplitK::cluster && !x.is_cluster(); }),
    rule("pingpong", "one warpgroup computes a tile of 128x128 or 64x256", refused, axis::pingpong,
         [](X x) { return x.c.pingpong && !x.may_pingpong(); }),
    rule("pingpong_tiles", "ping-pong needs more tiles than SMs", dominated, axis::pingpong,
         [](X x) { return x.c.pingpong && x.tiles() <= x.gpu.num_sms; }),
    rule("multicast", "operands are multicast by whole tiles of wgmma", refused, axis::multicast,
         [](X x) { return x.c.multicasts() && !x.may_multicast(); }),
    rule("neighbour", "no two consecutive tiles share an operand", dominated, axis::multicast,
         [](X x) { return x.c.multicasts() && !has_shared_operand(x.p, x.c); }),
    // These matrices also use L2 bandwidth: multicast makes ping-pong tiles 1 to 7 % faster
    // (2026-11-22-h200-alternate-epilogues.jsonl).
    rule("matrices", "ping-pong tiles whose epilogue reads matrices multicast", dominated,
         axis::multicast,
         [](X x) {
           return x.c.pingpong && x.p.epilogue_matrices > 0 && x.p.m > x.c.bm && !x.c.multicasts();
         }),
    rule("ring", "the engine has rings of other numbers of stages", refused, axis::stages,
         [](X x) { return !x.has_stages_of_engine(); }),
    rule(
        "shared_memory", "the ring does not fit shared memory", refused, axis::stages,
        [](X x) { return x.c.stages > 0 && x.c.stages > stages_that_fit(x.p, x.c, x.gpu.target); },
        true),
    rule("shared_sm", "CTAs that multicast fill an SM", refused, axis::stages,
         [](X x) { return x.c.multicasts() && !is_persistent(x.p, x.c, x.gpu.target); }),
    rule("shallow_ring", "a deeper ring costs no resident CTA", dominated, axis::stages,
         [](X x) { return x.has_room_for_stage(); }),
    rule("store", "TMA stores are for ping-pong tiles of long rows", dominated, axis::tma_store,
         [](X x) {
           const bool is_faster =
               x.c.pingpong && x.p.gates == 1 && x.p.k * x.bytes() >= kTmaStoreBytes;
           return x.c.tma_store != is_faster;
         }),
    rule("group", "concurrent tiles share operands in L2 in groups of eight rows", dominated,
         axis::group_m, [](X x) { return x.c.group_m != MatmulConfig().group_m; }),
};

}  // namespace

std::span<const MatmulRule> matmul_rules() { return kRules; }

}  // namespace tegula::autotune
