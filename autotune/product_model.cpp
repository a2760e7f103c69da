#include "autotune/product_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tegula/error.h"
#include "tegula/quotients.h"

namespace tegula::autotune {
namespace {

constexpr int kFewRows = 64, kLeastStages = 3;
/// A part of k has at least so many steps.
constexpr int kStepsOfPart = 8, kMaxSplits = 16;
constexpr std::array kStages{4, 6, 8};

// The tile as the tensor cores have it.
int rows(const MatmulConfig& c) { return c.swapped ? c.bn : c.bm; }
int columns(const MatmulConfig& c) { return c.swapped ? c.bm : c.bn; }

int bytes_of_step(const MatmulConfig& c) { return (c.bm + c.bn) * kStepBytes; }
int stages_that_fit(const MatmulConfig& c, const DeviceProfile& gpu) {
  return static_cast<int>(gpu.ring_bytes() / bytes_of_step(c));
}

std::int64_t tiles_of(const MatmulProblem& p, const MatmulConfig& c) {
  return ceil_div(p.m, c.bm) * ceil_div(p.n, c.bn);
}
std::int64_t steps_of(const MatmulProblem& p) {
  return ceil_div(p.k * size_bytes(p.operands), kStepBytes);
}

/// A tile of many rows whose operands are exchanged.
bool is_tall_swapped(const MatmulConfig& c) { return c.swapped && c.bm > kFewRows; }

/// What the tensor cores reach of their rate: narrow instructions do less between two fetches of A.
double tensor_share(const MatmulConfig& c, const MatmulRates& r) {
  if (is_tall_swapped(c)) return r.swapped_share * tensor_share({.bm = c.bn, .bn = c.bm}, r);
  return columns(c) >= 128 ? r.share_of_128 - r.loss_of_wider * (columns(c) - 128) / 128
                           : std::max(r.least_share, r.share_of_128 - r.loss_of_narrower *
                                                                          (128 - columns(c)) / 64);
}

/// Of B's columns, what a CTA brings for itself. Where tiles below each other are odd in number,
/// one pair of so many has none in common; a single wave ends with that pair, as fitted half way
/// between it and the others.
double own_columns(const MatmulProblem& p, const MatmulConfig& c) {
  if (!c.multicast) return 1;
  const std::int64_t below = ceil_div(p.m, c.bm);
  if (below % 2 == 0) return 0.5;
  return tiles_of(p, c) <= p.sms ? p.profile->matmul.odd_multicast_share
                                 : 0.5 + 0.5 / static_cast<double>(below);
}

/// TMA makes two requests of a row that lies across lines.
double requested_bytes(const MatmulProblem& p, const MatmulConfig& c) {
  return (c.bm * (p.a_lines ? 1 : 2) + c.bn * own_columns(p, c) * (p.b_lines ? 1 : 2)) * kStepBytes;
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
bool fits_one_wave(std::int64_t ctas, int splits, const MatmulProblem& p) {
  return ctas <= (splits == 2 ? p.sms : p.profile->matmul.in_clusters(p.sms));
}

/// Adding the parts of divided k.
double sum_cycles(const MatmulProblem& p, const MatmulConfig& c) {
  if (c.splits == 1) return 0;
  const MatmulRates& r = p.profile->matmul;
  // Half the rows are half as much, read by half the threads: as fitted, between the two.
  if (c.clustered)
    return (r.cluster_cycles + r.cluster_part_cycles * c.splits) * std::sqrt(128.0 / rows(c));
  const double bytes = static_cast<double>(p.m) * static_cast<double>(p.n) * 8;
  return r.reduce_cycles + c.splits * (r.part_cycles + bytes / r.part_bytes_per_cycle);
}

/// A warpgroup holds the sums of the tile by itself.
bool may_alternate(const MatmulProblem& p, const MatmulConfig& t) {
  constexpr int kExtent = 128;
  return !p.promoted && t.bm == kExtent && t.bn == kExtent;
}

/// Worth it where rows across lines make the L2 the bound, not else
/// (bench/results/sweeps/2026-11-23-h200-matmul-ragged.jsonl); only CTAs that fill an SM can.
bool may_share(const MatmulProblem& p, const MatmulConfig& c) {
  constexpr int kMostColumns = 192;  // of a single wave
  return has_split_lines(p) && !p.whole && c.splits == 1 && p.m > c.bm &&
         (c.bn <= kMostColumns || tiles_of(p, c) > p.sms) &&
         2 * c.stages * bytes_of_step(c) > p.profile->ring_bytes();
}

/// Slots of a ring, as many of these as weights of few rows gain by under way; none where k is
/// divided among more CTAs than that. Measured for one product of 16 bits.
int useful_stages(const MatmulProblem& p, const MatmulConfig& c, int deepest) {
  if (p.m > kFewRows || p.whole || size_bytes(p.operands) != 2) return deepest;
  for (int stages = deepest; stages >= kLeastStages; --stages) {
    const std::int64_t at_once = std::min<std::int64_t>(tiles_of(p, c) * c.splits,
                                                        p.sms * ctas_per_sm(c, stages, *p.profile));
    const auto step = static_cast<double>(at_once * c.bn * kStepBytes);
    if ((stages - 1) * step <= p.profile->matmul.weights_under_way) return stages;
  }
  return c.splits == 1 ? std::min(deepest, kLeastStages) : 0;
}

/// Heights between powers of two are there to fill waves: no cluster adds parts of them. Exchanged
/// operands gain nothing beyond the first wave.
bool has_purpose(const MatmulProblem& p, const MatmulConfig& c) {
  if (std::has_single_bit(static_cast<unsigned>(c.bm))) return true;
  return c.splits == 1 && (!c.swapped || tiles_of(p, c) <= p.sms);
}

/// Tiles one behind the other: what is not products counts once.
double alternating_cycles(const MatmulRates& r, double rounds, double steps, double step) {
  return r.tile_cycles + rounds * steps * step;
}

/// The best configuration so far.
struct Search {
  const MatmulProblem& product;
  MatmulConfig best = {};
  double least = INFINITY;

  void consider(const MatmulConfig& config) {
    const double cycles = product_cycles(product, config);
    if (cycles >= least) return;
    least = cycles;
    best = config;
  }

  void parts(MatmulConfig c) {
    const std::int64_t tiles = tiles_of(product, c);
    const int max_splits = product.whole ? 1 : kMaxSplits;
    const int deepest = c.stages;
    for (c.splits = 1; c.splits <= max_splits; ++c.splits) {
      if (c.splits > 1 && product.k < kStepsOfPart * c.bk * c.splits) break;
      c.stages = useful_stages(product, c, deepest);
      if (c.stages == 0 || !has_purpose(product, c)) continue;
      consider(c);
      MatmulConfig sharing = c;
      sharing.multicast = may_share(product, c);
      if (sharing.multicast) consider(sharing);
      MatmulConfig other = c;
      other.alternate = c.splits == 1 && tiles > product.sms && may_alternate(product, c);
      if (other.alternate) consider(other);
      const bool is_cluster = c.splits == 2 || c.splits == 4 || c.splits == 8;
      other.clustered = is_cluster && fits_one_wave(tiles * c.splits, c.splits, product);
      if (other.clustered) consider(other);
    }
  }

  /// A ring as deep as it can be for the CTAs that share an SM: a shallow one leaves room for more
  /// of them. Where a CTA has one tile, slots beyond its steps are never filled.
  void rings(MatmulConfig c) {
    const int deepest = deepest_ring(c, *product.profile);
    const std::int64_t useful = tiles_of(product, c) <= product.sms ? steps_of(product) : deepest;
    for (const int wanted : kStages) {
      c.stages = std::min(wanted, deepest);
      const int deeper = std::min(wanted + 2, deepest);
      if (c.stages < useful && deeper > c.stages &&
          ctas_per_sm(c, deeper, *product.profile) == ctas_per_sm(c, c.stages, *product.profile))
        continue;
      parts(c);
      if (c.stages == deepest || c.stages >= useful) break;
    }
  }
};

}  // namespace

int deepest_ring(const MatmulConfig& config, const DeviceProfile& gpu) {
  return std::min(stages_that_fit(config, gpu), kStages.back());
}

double product_cycles(const MatmulProblem& p, const MatmulConfig& c) {
  const MatmulRates& r = p.profile->matmul;
  const std::int64_t ctas = tiles_of(p, c) * c.splits;
  const auto steps = static_cast<double>(ceil_div(steps_of(p), c.splits));
  const double tensor =
                   2.0 * c.bm * c.bn * kStepBytes / (r.flop_bytes_per_cycle * tensor_share(c, r)),
               bytes = requested_bytes(p, c);
  const double tile_cycles = r.tile_cycles + (is_tall_swapped(c) ? r.swapped_tile_cycles : 0);
  const int at_once = ctas_per_sm(c, c.stages, *p.profile);
  // A wave of so many CTAs an SM shares its tensor cores and its part of the L2's bandwidth.
  const auto step = [&](double sharing) {
    return std::max({tensor * sharing + r.step_cycles, bytes * sharing / r.l2_bytes_per_cycle,
                     r.latency_cycles / c.stages});
  };
  const auto wave = [&](double sharing) { return tile_cycles + steps * step(sharing); };
  const std::int64_t full = ctas / (p.sms * at_once), rest = ctas % (p.sms * at_once);
  double cycles = r.launch_cycles + static_cast<double>(full) * wave(at_once);
  if (rest > 0) cycles += wave(static_cast<double>(ceil_div(rest, p.sms)));
  if (c.alternate)
    cycles =
        r.launch_cycles + alternating_cycles(r, static_cast<double>(ceil_div(ctas, p.sms)), steps,
                                             step(1) - r.step_cycles + r.alternating_step_cycles);
  if (c.multicast) cycles += r.multicast_cycles;
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  const double operands = size_bytes(p.operands) * (m * k + k * n);
  return soft_max(cycles, r.launch_cycles + operands / r.memory_bytes_per_cycle) + sum_cycles(p, c);
}

MatmulConfig best_product(const MatmulProblem& problem, std::span<const MatmulConfig> tiles) {
  Search search{problem};
  for (const MatmulConfig& t : tiles) search.rings(t);
  if (std::isinf(search.least)) throw InternalError("no configuration for a product");
  return search.best;
}

}  // namespace tegula::autotune
