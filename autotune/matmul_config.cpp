// The tiles that a product may have; which is taken, an estimate of the time says.
#include "tegula/matmul_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "autotune/product_model.h"
#include "autotune/remembered.h"
#include "tegula/quotients.h"

namespace tegula {
namespace {

/// A tile: the rest is chosen.
constexpr MatmulConfig tile(int bm, int bn) { return {.bm = bm, .bn = bn}; }
constexpr MatmulConfig swapped(int bm, int bn) { return {.bm = bm, .bn = bn, .swapped = true}; }

constexpr std::array kTiles{tile(128, 256), tile(128, 192), tile(128, 128),
                            tile(128, 64),  tile(64, 256),  tile(64, 192),
                            tile(64, 128),  tile(64, 64),   tile(64, 32)};
/// Only where k is contiguous in B. Else rows of B that are no multiple of 128 bytes come in pieces
/// of 64, which was slower than the next wider tile on every shape tried.
constexpr std::array kOddTiles{tile(128, 224), tile(128, 176), tile(128, 160), tile(128, 112),
                               tile(128, 96),  tile(64, 224),  tile(64, 160),  tile(64, 96)};
/// Spills beside matrices that an epilogue reads.
constexpr int kPlainWidth = 176;
/// For up to half the rows of an instruction: there they are never slower than other tiles of
/// wgmma.
constexpr std::array kSwappedTiles{swapped(8, 64),   swapped(8, 128), swapped(16, 64),
                                   swapped(16, 128), swapped(32, 64), swapped(32, 128)};
constexpr int kFewRows = 32;
/// Where rows lie across lines, the last wave should be full: heights in between, which A takes
/// where B's columns lie along the tensor cores' rows. k is contiguous in A, not in B. Three
/// warpgroups have no registers for more beside an epilogue, nor for matrices that it reads.
constexpr int kLeastTall = 72, kMostTall = 120, kTallStep = 8, kTallColumns = 192;
/// Of a tile that a thread holds twice.
constexpr int kPromotedColumns = 128;

std::vector<MatmulConfig> tiles_for(const MatmulProblem& p) {
  std::vector<MatmulConfig> tiles;
  const auto add = [&](const auto& list, const auto& fits) {
    for (MatmulConfig t : list) {
      t.bk = autotune::kStepBytes / size_bytes(p.operands);
      if (fits(t) && !(p.promoted && t.bn > kPromotedColumns)) tiles.push_back(t);
    }
  };
  const bool is_flat = p.m <= kFewRows;
  // TMA brings no rows of 16 bytes under a swizzle.
  add(kSwappedTiles,
      [&](const MatmulConfig& t) { return is_flat && p.m <= t.bm && (t.bm > 8 || p.a_k_major); });
  const auto is_filled = [&](const MatmulConfig& t) { return t.bm == 64 || p.m > t.bm / 2; };
  add(kTiles, [&](const MatmulConfig& t) { return !is_flat && is_filled(t); });
  add(kOddTiles, [&](const MatmulConfig& t) {
    return !is_flat && is_filled(t) && p.b_k_major && !(p.further && t.bn == kPlainWidth);
  });
  if (!autotune::has_split_lines(p) || p.whole) return tiles;
  add(std::array{tile(192, 192)}, is_filled);
  if (p.b_k_major || !p.a_k_major || p.further) return tiles;
  for (int rows = kLeastTall; rows <= kMostTall; rows += kTallStep)
    add(std::array{swapped(rows, kTallColumns)},
        [&](const MatmulConfig& t) { return p.m > t.bm / 2; });
  return tiles;
}

/// Without wgmma: the tile of mma.sync or of FMA.
MatmulConfig older_config(const MatmulProblem& p) {
  if (p.operands == DType::f32)
    return p.tf32 ? MatmulConfig{128, 128, 32} : MatmulConfig{64, 64, 16};
  if (size_bytes(p.operands) == 1) return {64, 64, 64};
  // Wider ones do not fit the registers where rows are not aligned for cp.async.
  return {p.m <= 64 ? 64 : 128, p.n <= 64 ? 64 : 128, 32};
}

/// Of a product of a few steps whose operands TMA does not take, stores of single elements are what
/// takes long: tiles are small. Where one round of them is enough, copies would take longer than
/// it.
std::optional<MatmulConfig> shallow_config(const MatmulProblem& p) {
  constexpr int kMaxDepth = 192;
  if (!p.copies || p.whole || size_bytes(p.operands) != 2 || p.k > kMaxDepth) return std::nullopt;
  MatmulConfig c{.bm = 64, .bn = 64, .bk = 64};
  c.direct = ceil_div(p.m, c.bm) * ceil_div(p.n, c.bn) <= p.sms;
  return c;
}

/// Few rows wait for the weights: many CTAs of one warp, which mma.sync's tiles are, keep the
/// memory busier than few large ones of wgmma. Clusters of them share k, so that each SM has one or
/// two at least; where their rings then ask for more bytes at once, shorter ones were faster
/// (bench/results/sweeps/2026-11-23-h200-few-rows.jsonl, of B with contiguous columns). What these
/// threads copy needs extents, too, that are whole pieces of 16 bytes.
std::optional<MatmulConfig> few_rows_config(const MatmulProblem& p) {
  constexpr int kStepsOfPart = 8, kPiece = 8, kMostRows = 32;
  const MatmulRates& r = p.profile->matmul;
  const int bytes = size_bytes(p.operands);
  const bool has_pieces = p.n % kPiece == 0 && (p.a_k_major ? p.k : p.m) % kPiece == 0;
  if (p.m > kMostRows || p.b_k_major || p.whole || p.copies || bytes != 2 || !has_pieces ||
      p.n * p.k * bytes < r.least_weights_cp_async)
    return std::nullopt;
  MatmulConfig c{.bm = p.m <= 16 ? 16 : 32, .bn = 64, .bk = 64, .clustered = true, .stages = 4};
  const std::int64_t tiles = ceil_div(p.n, c.bn);
  for (c.splits = 2; c.splits <= 8; c.splits *= 2) {
    if (p.k < std::int64_t{kStepsOfPart} * c.bk * c.splits) return std::nullopt;
    if (2 * tiles * c.splits < 3 * p.sms) continue;
    if (tiles * c.splits * c.bn * c.bk * bytes * 3 > r.weights_under_way_cp_async) c.stages = 3;
    return c;
  }
  return std::nullopt;
}

/// Columns that one tile holds, beside so many rows that tiles of 128 would not fill the only wave:
/// tiles as high as do. Of six shapes they took 0 to 10 % less time than the best of the others
/// (bench/results/sweeps/2026-11-24-h200-narrow.jsonl).
std::optional<MatmulConfig> narrow_config(const MatmulProblem& p) {
  constexpr int kColumns = 128, kMost = 112, kLeastDepth = 2048;
  const std::int64_t rows = ceil_div(ceil_div(p.m, p.sms), kTallStep) * kTallStep;
  if (p.n > kColumns || p.n <= kColumns / 2 || rows < kLeastTall || rows > kMost ||
      p.k < kLeastDepth || size_bytes(p.operands) != 2 || p.b_k_major || !p.a_k_major || p.copies ||
      p.whole || p.further)
    return std::nullopt;
  MatmulConfig t = swapped(static_cast<int>(rows), kColumns);
  t.bk = autotune::kStepBytes / size_bytes(p.operands);
  t.stages = autotune::deepest_ring(t, *p.profile);
  t.multicast = autotune::has_split_lines(p);
  return t;
}

MatmulConfig best_config(const MatmulProblem& p) {
  if (!p.by_wgmma || (p.operands == DType::f32 && !p.tf32)) return older_config(p);
  if (const auto shallow = shallow_config(p)) return *shallow;
  if (const auto few_rows = few_rows_config(p)) return *few_rows;
  if (const auto narrow = narrow_config(p)) return *narrow;
  MatmulConfig c = autotune::best_product(p, tiles_for(p));
  if (!c.alternate) return c;
  const std::int64_t row_bytes = p.k * size_bytes(p.operands);
  c.stages = 0;
  // What an epilogue reads comes from L2, too.
  c.multicast = p.whole || p.further || row_bytes > p.profile->matmul.multicast_row_bytes;
  c.tma_store = row_bytes >= p.profile->matmul.tma_store_row_bytes;
  return c;
}

}  // namespace

std::string MatmulConfig::str() const {
  return std::to_string(bm) + "x" + std::to_string(bn) + "x" + std::to_string(bk) +
         (splits > 1 ? (clustered ? " cluster " : " split ") + std::to_string(splits) : "") +
         (swapped ? " swapped" : "") + (direct ? " direct" : "") + (multicast ? " multicast" : "") +
         (alternate ? " alternate" : "") + (tma_store ? " tma_store" : "") +
         (streamed != 0 ? " streamed " + std::to_string(streamed) : "") +
         (stages != 0 ? " stages " + std::to_string(stages) : "") +
         (group_m != MatmulConfig().group_m ? " group_m " + std::to_string(group_m) : "");
}

MatmulConfig matmul_config(const MatmulProblem& problem) {
  thread_local autotune::Remembered<MatmulProblem, MatmulConfig> remembered;
  const auto hash = static_cast<std::uint64_t>((problem.m * 31 + problem.n) ^ (problem.k << 20));
  return remembered.of(problem, hash, best_config);
}

MatmulConfig gated_matmul_config(const MatmulProblem& problem) {
  // That of the product with both side by side.
  MatmulProblem both = problem;
  both.b_k_major = false;  // half of an odd width may be none that wgmma has
  both.n *= 2;
  both.whole = true;
  both.m = std::max<std::int64_t>(both.m, kFewRows + 1);  // no operands are exchanged
  MatmulConfig c = matmul_config(both);
  // Half as high rather than half as wide: blocks of its results take fewer registers.
  if (c.alternate) c.bm = 64, c.bn = 256, c.multicast = c.tma_store = false;
  c.bn /= 2;
  return c;
}

}  // namespace tegula
