#include "autotune/product_model.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tegula::autotune {
namespace {

// Fitted to the times of 54 shapes in all their configurations on an H200 (bench/matmul_search.py):
// what it chooses takes 1.1 % longer than the best. Cycles at 1.9 GHz.
constexpr double kFlopBytesPerCycle = 8192, kL2BytesPerCycle = 60.3, kDramBytesPerCycle = 1900;
/// From the request of a step's tiles to their arrival, with the memory busy.
constexpr double kLatencyCycles = 2606;
/// Of a step's barriers, of a tile's beginning and end, of a launch.
constexpr double kStepCycles = 46, kAlternatingStepCycles = 34, kTileCycles = 2142,
                 kFixedCycles = 8219;
/// Of the kernel that adds the parts of divided k, and of each part.
constexpr double kReduceCycles = 3942, kPartCycles = 804, kPartBytesPerCycle = 2514;
/// Of the parts' sum in a cluster, and of each CTA in it.
constexpr double kClusterCycles = 2403, kClusterPartCycles = 838;
constexpr int kSharedBytes = 225 * 1024;
/// A part of k has at least so many steps.
constexpr int kStepsOfPart = 8;
constexpr std::array kStages{4, 6, 8};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int stages_that_fit(const ProductTile& t) { return kSharedBytes / t.bytes_of_step(); }

/// What the tensor cores reach of their rate: narrow instructions do less between two fetches of A.
double tensor_share(int columns) {
  return columns >= 128 ? 0.798 - 0.021 * (columns - 128) / 128
                        : std::max(0.4, 0.798 - 0.158 * (128 - columns) / 64);
}

/// CTAs of this tile that an SM holds at once.
int ctas_per_sm(const ProductTile& t, int stages) {
  const int by_registers = 65536 / (2 * t.rows() * (t.columns() / 2 + 56));
  return std::clamp(std::min(stages_that_fit(t) / stages, by_registers), 1, 4);
}

/// Two bounds of which the larger one nearly decides.
double soft_max(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

/// Clusters of more than two CTAs do not fill the groups of SMs they must lie in: a grid of 128
/// CTAs took two waves, one of 88 a single one.
bool fits_one_wave(std::int64_t ctas, int splits, int sms) {
  return ctas <= (splits == 2 ? sms : sms * 2 / 3);
}

/// Adding the parts of divided k.
double sum_cycles(const Product& p, const ProductWay& w) {
  if (w.splits == 1) return 0;
  // Half the rows are read by half the threads.
  if (w.clustered) return (kClusterCycles + kClusterPartCycles * w.splits) * 128 / w.tile.rows();
  const double bytes = static_cast<double>(p.m) * static_cast<double>(p.n) * 8;
  return kReduceCycles + w.splits * (kPartCycles + bytes / kPartBytesPerCycle);
}

/// A warpgroup holds the sums of the tile by itself. It reads a third more than a tile of two, and
/// the one shape measured whose rows are longer than these was a fifth slower
/// (bench/results/sweeps/2026-11-22-h200-alternate.jsonl).
bool may_alternate(const Product& p, const ProductTile& t) {
  constexpr int kExtent = 128, kRowBytes = 16384;
  return p.may_alternate && t.bm == kExtent && t.bn == kExtent &&
         p.k * p.operand_bytes <= kRowBytes;
}

/// Tiles one behind the other: what is not products counts once.
double alternating_cycles(double rounds, double steps, double step) {
  return kTileCycles + rounds * steps * step;
}

/// The best way so far.
struct Search {
  const Product& product;
  int max_splits, sms;
  ProductWay best = {};
  double least = INFINITY;

  void consider(const ProductWay& way) {
    const double cycles = product_cycles(product, way, sms);
    if (cycles >= least) return;
    least = cycles;
    best = way;
  }

  void parts(const ProductTile& t, int stages) {
    const int bk = ProductTile::kStepBytes / product.operand_bytes;
    const std::int64_t ctas = ceil_div(product.m, t.bm) * ceil_div(product.n, t.bn);
    for (int splits = 1; splits <= max_splits; ++splits) {
      if (splits > 1 && product.k < kStepsOfPart * bk * splits) break;
      consider({t, stages, splits});
      if (splits == 1 && ctas > sms && may_alternate(product, t))
        consider({.tile = t, .stages = stages, .alternate = true});
      const bool is_cluster = splits == 2 || splits == 4 || splits == 8;
      if (is_cluster && fits_one_wave(ctas * splits, splits, sms))
        consider({t, stages, splits, true});
    }
  }

  /// A ring as deep as it can be for the CTAs that share an SM: a shallow one leaves room for more
  /// of them. Where a CTA has one tile, slots beyond its steps are never filled.
  void rings(const ProductTile& t) {
    const int deepest = std::min(stages_that_fit(t), kStages.back());
    const std::int64_t tiles = ceil_div(product.m, t.bm) * ceil_div(product.n, t.bn),
                       steps = ceil_div(product.k * product.operand_bytes, ProductTile::kStepBytes);
    const std::int64_t useful = tiles <= sms ? steps : deepest;
    for (const int wanted : kStages) {
      const int stages = std::min(wanted, deepest), deeper = std::min(wanted + 2, deepest);
      if (stages < useful && deeper > stages && ctas_per_sm(t, deeper) == ctas_per_sm(t, stages))
        continue;
      parts(t, stages);
      if (stages == deepest || stages >= useful) break;
    }
  }
};

}  // namespace

double product_cycles(const Product& p, const ProductWay& w, int sms) {
  const ProductTile& t = w.tile;
  const std::int64_t ctas = ceil_div(p.m, t.bm) * ceil_div(p.n, t.bn) * w.splits;
  const auto steps = static_cast<double>(
      ceil_div(ceil_div(p.k * p.operand_bytes, ProductTile::kStepBytes), w.splits));
  const double tensor = 2.0 * t.bm * t.bn * ProductTile::kStepBytes /
                        (kFlopBytesPerCycle * tensor_share(t.columns())),
               bytes = t.bytes_of_step() * (p.whole_lines ? 1.0 : 2.0);
  const int at_once = ctas_per_sm(t, w.stages);
  // A wave of `c` CTAs an SM shares its tensor cores and its part of the L2's bandwidth.
  const auto step = [&](double c) {
    return std::max(
        {tensor * c + kStepCycles, bytes * c / kL2BytesPerCycle, kLatencyCycles / w.stages});
  };
  const auto wave = [&](double c) { return kTileCycles + steps * step(c); };
  const std::int64_t full = ctas / (sms * at_once), rest = ctas % (sms * at_once);
  double cycles = kFixedCycles + static_cast<double>(full) * wave(at_once);
  if (rest > 0) cycles += wave(static_cast<double>(ceil_div(rest, sms)));
  if (w.alternate)
    cycles = kFixedCycles + alternating_cycles(static_cast<double>(ceil_div(ctas, sms)), steps,
                                               step(1) - kStepCycles + kAlternatingStepCycles);
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  cycles = soft_max(cycles, kFixedCycles + p.operand_bytes * (m * k + k * n) / kDramBytesPerCycle);
  return cycles + sum_cycles(p, w);
}

ProductWay best_way(const Product& product, std::span<const ProductTile> tiles, int max_splits,
                    int sms) {
  Search search{product, max_splits, sms};
  for (const ProductTile& t : tiles) search.rings(t);
  return search.best;
}

}  // namespace tegula::autotune
