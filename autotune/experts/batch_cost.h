#pragma once
// Cost of expert tiles, by the cost model of batched GEMMs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "autotune/matmul/work.h"
#include "tegula/expert_config.h"

namespace tegula::autotune {

/// Converts a configuration, with the compiler's number of stages if none is given.
inline MatmulConfig as_matmul(const MatmulProblem& batch, const ExpertTileConfig& c,
                              ir::Target target) {
  MatmulConfig of{.bm = c.bm, .bn = c.bn, .bk = c.bk, .swap_ab = c.swap_ab, .stages = c.stages};
  if (of.stages == 0) of.stages = std::clamp(stages_that_fit(batch, of, target), 1, 4);
  return of;
}

inline bool is_too_deep(const MatmulProblem& batch, const ExpertTileConfig& c, ir::Target target) {
  return c.stages > stages_that_fit(batch, as_matmul(batch, c, target), target);
}

/// Returns the expected number of tiles of `height` rows per expert under an even routing: the sum
/// over n of the probability that n tiles do not suffice. The number of rows is assumed to be
/// normally distributed with variance `mean_rows`.
inline double expected_tiles(std::int64_t mean_rows, int height) {
  constexpr double kDeviations = 5;
  const auto mean = static_cast<double>(std::max<std::int64_t>(mean_rows, 1));
  const double deviation = std::sqrt(mean);
  double full = std::max(1.0, std::floor((mean - kDeviations * deviation) / height)), tiles = full;
  for (; full * height < mean + kDeviations * deviation; ++full)
    tiles += 0.5 * std::erfc((full * height + 0.5 - mean) / (std::numbers::sqrt2 * deviation));
  return tiles;
}

/// Returns true if neighbouring tiles should share the loads of weights. On an H100, sharing took
/// 0.80 to 0.94 of the time for k of 4096 and 14336 (Mixtral), and 1.01 to 1.09 for k of 768 to
/// 2048 (Qwen3), where tiles end often and both CTAs wait for the slower one
/// (docs/experiments/2026-11-27-multicast-of-experts.md). Tiles that gather their rows were not
/// measured; the tuner tries them.
inline bool pays_multicast(const MatmulProblem& batch, const ExpertTileConfig& c) {
  constexpr std::int64_t kLongBytes = 8192;
  constexpr double kPair = 1.5;
  return !c.gathers && expected_tiles(batch.m, c.bm) >= kPair &&
         batch.k * size_bytes(batch.operands) >= kLongBytes;
}

/// Returns the work of ragged segments with batch.m rows on average: tiles read the weights and
/// multiply full tiles of rows. If the ring fills shared memory, warps store transposed
/// accumulators directly: at four times the rate, fitted to layers of DeepSeek-V3 and Qwen3
/// (docs/experiments/2026-11-26-heights-of-experts.md).
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

/// Returns the estimated cycles if each operand byte is read from memory once. When the estimate
/// included L2 misses, the tiles chosen for Mixtral at 1,024 tokens on an H100 took 1.15 times as
/// long (docs/experiments/2026-11-27-operands-beyond-l2.md).
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
