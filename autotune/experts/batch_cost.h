#pragma once
// Tiles of experts as configurations of a batch of GEMMs, whose cost core knows what they take.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "autotune/matmul/work.h"
#include "tegula/expert_config.h"

namespace tegula::autotune {

/// With the stages that the compiler would take where none are given.
inline MatmulConfig as_matmul(const MatmulProblem& batch, const ExpertTileConfig& c,
                              ir::Target target) {
  MatmulConfig of{.bm = c.bm, .bn = c.bn, .bk = c.bk, .swap_ab = c.swap_ab, .stages = c.stages};
  if (of.stages == 0) of.stages = std::clamp(stages_that_fit(batch, of, target), 1, 4);
  return of;
}

inline bool is_too_deep(const MatmulProblem& batch, const ExpertTileConfig& c, ir::Target target) {
  return c.stages > stages_that_fit(batch, as_matmul(batch, c, target), target);
}

/// Tiles of `height` rows that an expert has in the mean, where an even routing scatters its rows
/// by the root of their mean: the sum over n of the probability that n full tiles do not hold them.
inline double expected_tiles(std::int64_t mean_rows, int height) {
  constexpr double kDeviations = 5;
  const auto mean = static_cast<double>(std::max<std::int64_t>(mean_rows, 1));
  const double deviation = std::sqrt(mean);
  double full = std::max(1.0, std::floor((mean - kDeviations * deviation) / height)), tiles = full;
  for (; full * height < mean + kDeviations * deviation; ++full)
    tiles += 0.5 * std::erfc((full * height + 0.5 - mean) / (std::numbers::sqrt2 * deviation));
  return tiles;
}

/// Whether neighbouring tiles share the loads of weights. On an H100 that took 0.80 to 0.94 of the
/// time for k of 4096 and 14336 (Mixtral), and 1.01 to 1.09 of it for k of 768 to 2048 (Qwen3):
/// both CTAs wait for the slower one at the ends of tiles, which are many there
/// (docs/experiments/2026-11-27-multicast-of-experts.md). Tiles that gather their rows were not
/// measured: a tuner tries them.
inline bool pays_multicast(const MatmulProblem& batch, const ExpertTileConfig& c) {
  constexpr std::int64_t kLongBytes = 8192;
  constexpr double kPair = 1.5;
  return !c.gathers && expected_tiles(batch.m, c.bm) >= kPair &&
         batch.k * size_bytes(batch.operands) >= kLongBytes;
}

/// Work of ragged segments, of batch.m rows in the mean: their tiles read the weights, and multiply
/// as many rows as they have room for. Where the ring fills shared memory, warps store transposed
/// accumulators without exchanging them through it: at four times the rate, as fitted to layers of
/// DeepSeek-V3 and Qwen3 (docs/experiments/2026-11-26-heights-of-experts.md).
inline Work work_of_segments(const MatmulProblem& batch, const MatmulConfig& c, ir::Target target) {
  constexpr double kDirectRate = 4;
  const double tiles = expected_tiles(batch.m, c.bm);
  MatmulProblem tile = batch;
  tile.m = std::max<std::int64_t>(1, std::llround(static_cast<double>(batch.m) / tiles));
  Work w = work_of(tile, c, target);
  w.tiles *= tiles;
  if (2 * c.stages * stage_bytes(batch, c) > target->shared_bytes_per_cta)
    w.epilogue_bytes /= c.swap_ab ? kDirectRate : 1;
  w.order = order_of(batch, c);
  return w;
}

/// Each byte of segments' operands counts once. With those that the L2 does not hold an H100 took
/// tiles for Mixtral at 1,024 tokens that needed 1.15 times as long
/// (docs/experiments/2026-11-27-operands-beyond-l2.md).
inline double cycles_of_segments(const Work& w, DeviceProfile gpu) {
  gpu.l2_bytes = std::numeric_limits<std::int64_t>::max();
  return cycles_of(w, gpu);
}

inline double cycles_of_batch(const MatmulProblem& batch, const ExpertTileConfig& c,
                              const DeviceProfile& gpu) {
  const ir::Target target = limits_of(gpu).target;
  return cycles_of(work_of(batch, as_matmul(batch, c, target), target), gpu);
}

}  // namespace tegula::autotune
