// Candidate tiles of a GEMM; the cost model chooses among them.
#include "tegula/matmul_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "autotune/matmul_cost_model.h"
#include "autotune/memo_table.h"
#include "tegula/int_math.h"

namespace tegula {
namespace {

/// A tile: the rest is chosen.
constexpr MatmulConfig tile(int bm, int bn) { return {.bm = bm, .bn = bn}; }
constexpr MatmulConfig swap_ab_tile(int bm, int bn) {
  return {.bm = bm, .bn = bn, .swap_ab = true};
}

constexpr std::array kTiles{tile(128, 256), tile(128, 192), tile(128, 128),
                            tile(128, 64),  tile(64, 256),  tile(64, 192),
                            tile(64, 128),  tile(64, 64),   tile(64, 32)};
/// Only for k-major B. Else rows of B that are no multiple of 128 bytes are loaded in chunks of 64,
/// which was slower than the next wider tile on every shape tried.
constexpr std::array kNonPow2Tiles{tile(128, 224), tile(128, 176), tile(128, 160), tile(128, 112),
                                   tile(128, 96),  tile(64, 224),  tile(64, 160),  tile(64, 96)};
/// Maximum BN in an epilogue that reads tensors: wider tiles spill.
constexpr int kPlainWidth = 176;
/// For up to half the rows of an instruction: there they are never slower than other tiles of
/// wgmma.
constexpr std::array kSwapAbTiles{swap_ab_tile(8, 64),  swap_ab_tile(8, 128),
                                  swap_ab_tile(16, 64), swap_ab_tile(16, 128),
                                  swap_ab_tile(32, 64), swap_ab_tile(32, 128)};
constexpr int kSmallM = 32;
/// Tile heights (swap A/B) for problems whose rows are not 128-byte aligned, chosen so that the
/// last wave is full. Requires A k-major and B not k-major; three warpgroups have no registers for
/// more than an epilogue, nor for matrices that it reads.
constexpr int kMinTall = 72, kMaxTall = 120, kTallStep = 8, kTallColumns = 192;
/// Maximum BN with FP32 promotion, which needs two accumulators per thread.
constexpr int kPromotionColumns = 128;

std::vector<MatmulConfig> tiles_for(const MatmulProblem& p) {
  std::vector<MatmulConfig> tiles;
  const auto add = [&](const auto& list, const auto& fits) {
    for (MatmulConfig t : list) {
      t.bk = autotune::kBlockKBytes / size_bytes(p.operands);
      if (fits(t) && !(p.fp32_promotion && t.bn > kPromotionColumns)) tiles.push_back(t);
    }
  };
  const bool is_flat = p.m <= kSmallM;
  // TMA cannot load rows of 16 bytes under a swizzle.
  add(kSwapAbTiles,
      [&](const MatmulConfig& t) { return is_flat && p.m <= t.bm && (t.bm > 8 || p.a_k_major); });
  const auto is_filled = [&](const MatmulConfig& t) { return t.bm == 64 || p.m > t.bm / 2; };
  add(kTiles, [&](const MatmulConfig& t) { return !is_flat && is_filled(t); });
  add(kNonPow2Tiles, [&](const MatmulConfig& t) {
    return !is_flat && is_filled(t) && p.b_k_major &&
           !(p.has_epilogue_tensors && t.bn == kPlainWidth);
  });
  if (!autotune::is_line_misaligned(p) || p.no_split_k) return tiles;
  add(std::array{tile(192, 192)}, is_filled);
  if (p.b_k_major || !p.a_k_major || p.has_epilogue_tensors) return tiles;
  for (int rows = kMinTall; rows <= kMaxTall; rows += kTallStep)
    add(std::array{swap_ab_tile(rows, kTallColumns)},
        [&](const MatmulConfig& t) { return p.m > t.bm / 2; });
  return tiles;
}

/// Without wgmma: the tile of mma.sync or of FMA.
MatmulConfig mma_sync_config(const MatmulProblem& p) {
  if (p.operands == DType::f32)
    return p.tf32 ? MatmulConfig{128, 128, 32} : MatmulConfig{64, 64, 16};
  if (size_bytes(p.operands) == 1) return {64, 64, 64};
  // Wider ones do not fit the registers where rows are not aligned for cp.async.
  return {p.m <= 64 ? 64 : 128, p.n <= 64 ? 64 : 128, 32};
}

/// Small-k problems whose operands TMA cannot load are bound by element-wise stores, so tiles are
/// small. If one wave suffices, repacking the operands would cost more than it saves.
std::optional<MatmulConfig> small_k_config(const MatmulProblem& p) {
  constexpr int kMaxDepth = 192;
  if (!p.needs_repack || p.no_split_k || size_bytes(p.operands) != 2 || p.k > kMaxDepth)
    return std::nullopt;
  MatmulConfig c{.bm = 64, .bn = 64, .bk = 64};
  c.no_repack = ceil_div(p.m, c.bm) * ceil_div(p.n, c.bn) <= p.num_sms;
  return c;
}

/// Small m waits for the weights: many CTAs of one warp, with mma.sync's tiles, keep the memory
/// busier than few large ones of wgmma. Clusters of them split k, so that each SM has one or two at
/// least; if their rings then request more bytes at once, fewer stages were faster
/// (bench/results/sweeps/2026-11-23-h200-few-rows.jsonl, of B with contiguous columns). cp.async
/// also needs extents in multiples of 16 bytes.
std::optional<MatmulConfig> small_m_config(const MatmulProblem& p) {
  constexpr int kMinIterationsPerSplit = 8, kPiece = 8, kMaxRows = 32;
  const MatmulRates& r = p.profile->matmul;
  const int bytes = size_bytes(p.operands);
  const bool has_pieces = p.n % kPiece == 0 && (p.a_k_major ? p.k : p.m) % kPiece == 0;
  if (p.m > kMaxRows || p.b_k_major || p.no_split_k || p.needs_repack || bytes != 2 ||
      !has_pieces || p.n * p.k * bytes < r.least_weights_cp_async)
    return std::nullopt;
  MatmulConfig c{
      .bm = p.m <= 16 ? 16 : 32, .bn = 64, .bk = 64, .split_k_in_cluster = true, .stages = 4};
  const std::int64_t tiles = ceil_div(p.n, c.bn);
  for (c.split_k = 2; c.split_k <= 8; c.split_k *= 2) {
    if (p.k < std::int64_t{kMinIterationsPerSplit} * c.bk * c.split_k) return std::nullopt;
    if (2 * tiles * c.split_k < 3 * p.num_sms) continue;
    if (tiles * c.split_k * c.bn * c.bk * bytes * 3 > r.weights_under_way_cp_async) c.stages = 3;
    return c;
  }
  return std::nullopt;
}

/// Small n: one tile holds all columns, and so many rows that tiles of 128 would not fill the only
/// wave; takes tiles as high as do. On six shapes they took 0 to 10 % less time than the best of
/// the others (bench/results/sweeps/2026-11-24-h200-narrow.jsonl).
std::optional<MatmulConfig> small_n_config(const MatmulProblem& p) {
  constexpr int kColumns = 128, kMost = 112, kMinDepth = 2048;
  const std::int64_t rows = ceil_div(ceil_div(p.m, p.num_sms), kTallStep) * kTallStep;
  if (p.n > kColumns || p.n <= kColumns / 2 || rows < kMinTall || rows > kMost || p.k < kMinDepth ||
      size_bytes(p.operands) != 2 || p.b_k_major || !p.a_k_major || p.needs_repack ||
      p.no_split_k || p.has_epilogue_tensors)
    return std::nullopt;
  MatmulConfig t = swap_ab_tile(static_cast<int>(rows), kColumns);
  t.bk = autotune::kBlockKBytes / size_bytes(p.operands);
  t.stages = autotune::max_stages(t, *p.profile);
  t.multicast = autotune::is_line_misaligned(p);
  return t;
}

MatmulConfig best_config(const MatmulProblem& p) {
  if (!p.has_wgmma || (p.operands == DType::f32 && !p.tf32)) return mma_sync_config(p);
  if (const auto shallow = small_k_config(p)) return *shallow;
  if (const auto few_rows = small_m_config(p)) return *few_rows;
  if (const auto narrow = small_n_config(p)) return *narrow;
  MatmulConfig c = autotune::best_matmul_config(p, tiles_for(p));
  if (!c.pingpong) return c;
  const std::int64_t row_bytes = p.k * size_bytes(p.operands);
  c.stages = 0;
  // The tensors that an epilogue reads come from L2, too.
  c.multicast =
      p.no_split_k || p.has_epilogue_tensors || row_bytes > p.profile->matmul.multicast_row_bytes;
  c.tma_store = row_bytes >= p.profile->matmul.tma_store_row_bytes;
  return c;
}

}  // namespace

std::string MatmulConfig::str() const {
  return std::to_string(bm) + "x" + std::to_string(bn) + "x" + std::to_string(bk) +
         (split_k > 1
              ? (split_k_in_cluster ? " cluster_split_k " : " split_k ") + std::to_string(split_k)
              : "") +
         (swap_ab ? " swap_ab" : "") + (no_repack ? " no_repack" : "") +
         (multicast ? " multicast" : "") + (pingpong ? " pingpong" : "") +
         (tma_store ? " tma_store" : "") +
         (stream_k_ctas != 0 ? " stream_k " + std::to_string(stream_k_ctas) : "") +
         (stages != 0 ? " stages " + std::to_string(stages) : "") +
         (group_m != MatmulConfig().group_m ? " group_m " + std::to_string(group_m) : "");
}

MatmulConfig matmul_config(const MatmulProblem& problem) {
  thread_local autotune::MemoTable<MatmulProblem, MatmulConfig> memo;
  const auto hash = static_cast<std::uint64_t>((problem.m * 31 + problem.n) ^ (problem.k << 20));
  return memo.of(problem, hash, best_config);
}

MatmulConfig gated_matmul_config(const MatmulProblem& problem) {
  // Starts from the configuration of one GEMM with both B matrices side by side.
  MatmulProblem both = problem;
  both.b_k_major = false;  // half of an odd width may be none that wgmma has
  both.n *= 2;
  both.no_split_k = true;
  both.m = std::max<std::int64_t>(both.m, kSmallM + 1);  // no operands are exchanged
  MatmulConfig c = matmul_config(both);
  // Half as high rather than half as wide: blocks of its results take fewer registers.
  if (c.pingpong) c.bm = 64, c.bn = 256, c.multicast = c.tma_store = false;
  c.bn /= 2;
  return c;
}

}  // namespace tegula
