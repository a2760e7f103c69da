#include "autotune/matmul_cost_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tegula/error.h"
#include "tegula/int_math.h"

namespace tegula::autotune {
namespace {

constexpr int kSmallM = 64, kMinStages = 3;
/// Minimum k-iterations of a split-K slice.
constexpr int kMinIterationsPerSplit = 8, kMaxSplits = 16;
constexpr std::array kStages{4, 6, 8};

// The tile as the tensor cores have it.
int rows(const MatmulConfig& c) { return c.swap_ab ? c.bn : c.bm; }
int columns(const MatmulConfig& c) { return c.swap_ab ? c.bm : c.bn; }

int bytes_of_step(const MatmulConfig& c) { return (c.bm + c.bn) * kBlockKBytes; }
int stages_that_fit(const MatmulConfig& c, const DeviceProfile& gpu) {
  return static_cast<int>(gpu.ring_bytes() / bytes_of_step(c));
}

std::int64_t tiles_of(const MatmulProblem& p, const MatmulConfig& c) {
  return ceil_div(p.m, c.bm) * ceil_div(p.n, c.bn);
}
std::int64_t steps_of(const MatmulProblem& p) {
  return ceil_div(p.k * size_bytes(p.operands), kBlockKBytes);
}

/// A tile of many rows whose operands are exchanged.
bool is_tall_swap_ab(const MatmulConfig& c) { return c.swap_ab && c.bm > kSmallM; }

/// Fraction of their peak rate that the tensor cores reach: narrow instructions do less between two
/// fetches of A.
double tensor_core_utilization(const MatmulConfig& c, const MatmulRates& r) {
  if (is_tall_swap_ab(c))
    return r.swapped_share * tensor_core_utilization({.bm = c.bn, .bn = c.bm}, r);
  return columns(c) >= 128 ? r.share_of_128 - r.loss_of_wider * (columns(c) - 128) / 128
                           : std::max(r.least_share, r.share_of_128 - r.loss_of_narrower *
                                                                          (128 - columns(c)) / 64);
}

/// Fraction of B's columns that a CTA loads without sharing them. If a column of tiles has an odd
/// number of rows, one pair of CTAs has none in common; a single wave ends with that pair and is
/// fitted half way between it and the others.
double unshared_b_fraction(const MatmulProblem& p, const MatmulConfig& c) {
  if (!c.multicast) return 1;
  const std::int64_t below = ceil_div(p.m, c.bm);
  if (below % 2 == 0) return 0.5;
  return tiles_of(p, c) <= p.num_sms ? p.profile->matmul.odd_multicast_share
                                     : 0.5 + 0.5 / static_cast<double>(below);
}

/// Bytes requested per k-iteration: TMA makes two requests for a row that crosses a line.
double requested_bytes(const MatmulProblem& p, const MatmulConfig& c) {
  return (c.bm * (p.is_a_line_aligned ? 1 : 2) +
          c.bn * unshared_b_fraction(p, c) * (p.is_b_line_aligned ? 1 : 2)) *
         kBlockKBytes;
}

/// CTAs of this tile that an SM holds at once.
int ctas_per_sm(const MatmulConfig& t, int stages, const DeviceProfile& gpu) {
  const int by_registers = gpu.registers_per_sm() / (2 * rows(t) * (columns(t) / 2 + 56));
  return std::clamp(std::min(stages_that_fit(t, gpu) / stages, by_registers), 1, 4);
}

/// Two bounds of which the larger one nearly decides.
double soft_max(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

/// Clusters of more than two CTAs do not fill the groups of SMs they must lie in.
bool fits_one_wave(std::int64_t ctas, int split_k, const MatmulProblem& p) {
  return ctas <= (split_k == 2 ? p.num_sms : p.profile->matmul.in_clusters(p.num_sms));
}

/// Cycles of the split-K reduction.
double reduction_cycles(const MatmulProblem& p, const MatmulConfig& c) {
  if (c.split_k == 1) return 0;
  const MatmulRates& r = p.profile->matmul;
  // Half the rows are half as much, read by half the threads: as fitted, between the two.
  if (c.split_k_in_cluster)
    return (r.cluster_cycles + r.cluster_part_cycles * c.split_k) * std::sqrt(128.0 / rows(c));
  const double bytes = static_cast<double>(p.m) * static_cast<double>(p.n) * 8;
  return r.reduce_cycles + c.split_k * (r.part_cycles + bytes / r.part_bytes_per_cycle);
}

/// In ping-pong mode one warpgroup holds the accumulator of the tile.
bool may_pingpong(const MatmulProblem& p, const MatmulConfig& t) {
  constexpr int kExtent = 128;
  return !p.fp32_promotion && t.bm == kExtent && t.bn == kExtent;
}

/// Whether multicast pays: if rows that are not line-aligned make the L2 the bound, not else
/// (bench/results/sweeps/2026-11-23-h200-matmul-ragged.jsonl); only CTAs that fill an SM can.
bool may_multicast(const MatmulProblem& p, const MatmulConfig& c) {
  constexpr int kMaxColumns = 192;  // maximum for a single wave
  return is_line_misaligned(p) && !p.no_split_k && c.split_k == 1 && p.m > c.bm &&
         (c.bn <= kMaxColumns || tiles_of(p, c) > p.num_sms) &&
         2 * c.stages * bytes_of_step(c) > p.profile->ring_bytes();
}

/// Slots of a ring, as many of these as weights of few rows gain by under way; none where k is
/// divided among more CTAs than that. Measured for one product of 16 bits.
int useful_stages(const MatmulProblem& p, const MatmulConfig& c, int deepest) {
  if (p.m > kSmallM || p.no_split_k || size_bytes(p.operands) != 2) return deepest;
  for (int stages = deepest; stages >= kMinStages; --stages) {
    const std::int64_t at_once = std::min<std::int64_t>(
        tiles_of(p, c) * c.split_k, p.num_sms * ctas_per_sm(c, stages, *p.profile));
    const auto step = static_cast<double>(at_once * c.bn * kBlockKBytes);
    if ((stages - 1) * step <= p.profile->matmul.weights_under_way) return stages;
  }
  return c.split_k == 1 ? std::min(deepest, kMinStages) : 0;
}

/// Heights between powers of two serve to fill waves: no cluster split-K on them. Swap A/B gains
/// nothing beyond the first wave.
bool has_purpose(const MatmulProblem& p, const MatmulConfig& c) {
  if (std::has_single_bit(static_cast<unsigned>(c.bm))) return true;
  return c.split_k == 1 && (!c.swap_ab || tiles_of(p, c) <= p.num_sms);
}

/// Ping-pong tiles one after the other: all but their mainloops counts once.
double pingpong_cycles(const MatmulRates& r, double rounds, double steps, double step) {
  return r.tile_cycles + rounds * steps * step;
}

/// The best configuration so far.
struct ConfigSearch {
  const MatmulProblem& product;
  MatmulConfig best = {};
  double least = INFINITY;

  void consider(const MatmulConfig& config) {
    const double cycles = estimate_cycles(product, config);
    if (cycles >= least) return;
    least = cycles;
    best = config;
  }

  void try_split_k(MatmulConfig c) {
    const std::int64_t tiles = tiles_of(product, c);
    const int max_splits = product.no_split_k ? 1 : kMaxSplits;
    const int deepest = c.stages;
    for (c.split_k = 1; c.split_k <= max_splits; ++c.split_k) {
      if (c.split_k > 1 && product.k < kMinIterationsPerSplit * c.bk * c.split_k) break;
      c.stages = useful_stages(product, c, deepest);
      if (c.stages == 0 || !has_purpose(product, c)) continue;
      consider(c);
      MatmulConfig sharing = c;
      sharing.multicast = may_multicast(product, c);
      if (sharing.multicast) consider(sharing);
      MatmulConfig other = c;
      other.pingpong = c.split_k == 1 && tiles > product.num_sms && may_pingpong(product, c);
      if (other.pingpong) consider(other);
      const bool is_cluster = c.split_k == 2 || c.split_k == 4 || c.split_k == 8;
      other.split_k_in_cluster = is_cluster && fits_one_wave(tiles * c.split_k, c.split_k, product);
      if (other.split_k_in_cluster) consider(other);
    }
  }

  /// Tries rings as deep as the CTAs that share an SM allow: a shallow one leaves room for more
  /// CTAs. If a CTA has one tile, stages beyond its k-iterations are never filled.
  void try_stages(MatmulConfig c) {
    const int deepest = max_stages(c, *product.profile);
    const std::int64_t useful =
        tiles_of(product, c) <= product.num_sms ? steps_of(product) : deepest;
    for (const int wanted : kStages) {
      c.stages = std::min(wanted, deepest);
      const int deeper = std::min(wanted + 2, deepest);
      if (c.stages < useful && deeper > c.stages &&
          ctas_per_sm(c, deeper, *product.profile) == ctas_per_sm(c, c.stages, *product.profile))
        continue;
      try_split_k(c);
      if (c.stages == deepest || c.stages >= useful) break;
    }
  }
};

}  // namespace

int max_stages(const MatmulConfig& config, const DeviceProfile& gpu) {
  return std::min(stages_that_fit(config, gpu), kStages.back());
}

double estimate_cycles(const MatmulProblem& p, const MatmulConfig& c) {
  const MatmulRates& r = p.profile->matmul;
  const std::int64_t ctas = tiles_of(p, c) * c.split_k;
  const auto steps = static_cast<double>(ceil_div(steps_of(p), c.split_k));
  const double tensor = 2.0 * c.bm * c.bn * kBlockKBytes /
                        (r.flop_bytes_per_cycle * tensor_core_utilization(c, r)),
               bytes = requested_bytes(p, c);
  const double tile_cycles = r.tile_cycles + (is_tall_swap_ab(c) ? r.swapped_tile_cycles : 0);
  const int at_once = ctas_per_sm(c, c.stages, *p.profile);
  // The CTAs of a wave on one SM share its tensor cores and its part of the L2's bandwidth.
  const auto step = [&](double sharing) {
    return std::max({tensor * sharing + r.step_cycles, bytes * sharing / r.l2_bytes_per_cycle,
                     r.latency_cycles / c.stages});
  };
  const auto wave = [&](double sharing) { return tile_cycles + steps * step(sharing); };
  const std::int64_t full = ctas / (p.num_sms * at_once), rest = ctas % (p.num_sms * at_once);
  double cycles = r.launch_cycles + static_cast<double>(full) * wave(at_once);
  if (rest > 0) cycles += wave(static_cast<double>(ceil_div(rest, p.num_sms)));
  if (c.pingpong)
    cycles =
        r.launch_cycles + pingpong_cycles(r, static_cast<double>(ceil_div(ctas, p.num_sms)), steps,
                                          step(1) - r.step_cycles + r.alternating_step_cycles);
  if (c.multicast) cycles += r.multicast_cycles;
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  const double operands = size_bytes(p.operands) * (m * k + k * n);
  return soft_max(cycles, r.launch_cycles + operands / r.memory_bytes_per_cycle) +
         reduction_cycles(p, c);
}

MatmulConfig best_matmul_config(const MatmulProblem& problem, std::span<const MatmulConfig> tiles) {
  ConfigSearch search{problem};
  for (const MatmulConfig& t : tiles) search.try_stages(t);
  if (std::isinf(search.least)) throw InternalError("no configuration for a GEMM");
  return search.best;
}

}  // namespace tegula::autotune
