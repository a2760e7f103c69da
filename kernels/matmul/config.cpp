// Choice of a configuration: an estimate of the time in cycles, for every row of a short list.
#include <algorithm>
#include <array>
#include <cmath>

#include "tegula/kernels/matmul.h"

namespace tegula {
namespace {

// Fitted to the times of 54 shapes in all their configurations on an H200 (bench/matmul_search.py):
// what it chooses takes 1.1 % longer than the best. Cycles at 1.9 GHz. What one instruction takes
// of a row is 32 bytes for every type.
constexpr double kFlopBytesPerCycle = 8192, kL2BytesPerCycle = 60.3, kDramBytesPerCycle = 1900;
/// From the request of a step's tiles to their arrival, with the memory busy.
constexpr double kLatencyCycles = 2606;
/// Of a step's barriers, of a tile's beginning and end, of a launch.
constexpr double kStepCycles = 46, kTileCycles = 2142, kFixedCycles = 8219;
/// Of the kernel that adds the parts of divided k, and of each part.
constexpr double kReduceCycles = 3942, kPartCycles = 804, kPartBytesPerCycle = 2514;
/// Of the parts' sum in a cluster, and of each CTA in it.
constexpr double kClusterCycles = 2403, kClusterPartCycles = 838;
constexpr int kSharedBytes = 225 * 1024, kMaxSplits = 16, kStepBytes = 128;

struct Tile {
  int bm, bn;
  bool swapped = false;
  /// The tile as the tensor cores have it.
  int rows() const { return swapped ? bn : bm; }
  int columns() const { return swapped ? bm : bn; }
  int bytes_of_step() const { return (bm + bn) * kStepBytes; }
  int stages_that_fit() const { return kSharedBytes / bytes_of_step(); }
};
constexpr std::array kStages{4, 6, 8};
constexpr std::array kTiles{Tile{128, 256}, Tile{128, 192}, Tile{128, 128},
                            Tile{128, 64},  Tile{64, 256},  Tile{64, 192},
                            Tile{64, 128},  Tile{64, 64},   Tile{64, 32}};
/// Only where k is contiguous in B. Else rows of B that are no multiple of 128 bytes come in pieces
/// of 64, which was slower than the next wider tile on every shape tried.
constexpr std::array kOddTiles{Tile{128, 224}, Tile{128, 176}, Tile{128, 160}, Tile{128, 112},
                               Tile{128, 96},  Tile{64, 224},  Tile{64, 160},  Tile{64, 96}};
/// For up to half the rows of an instruction: there they are never slower than the others.
constexpr std::array kSwappedTiles{Tile{8, 64, true},   Tile{8, 128, true}, Tile{16, 64, true},
                                   Tile{16, 128, true}, Tile{32, 64, true}, Tile{32, 128, true}};

constexpr int kFewRows = 32;

/// Of a tile that a thread holds twice.
constexpr int kPromotedColumns = 128;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// What the tensor cores reach of their rate: narrow instructions do less between two fetches of A.
double tensor_share(int columns) {
  return columns >= 128 ? 0.798 - 0.021 * (columns - 128) / 128
                        : std::max(0.4, 0.798 - 0.158 * (128 - columns) / 64);
}

/// CTAs of this tile that an SM holds at once.
int ctas_per_sm(const Tile& t, int stages) {
  const int by_registers = 65536 / (2 * t.rows() * (t.columns() / 2 + 56));
  return std::clamp(std::min(t.stages_that_fit() / stages, by_registers), 1, 4);
}

/// Two bounds of which the larger one nearly decides.
double soft_max(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

/// How k is divided.
struct Parts {
  int splits = 1;
  bool clustered = false;
};

/// Clusters of more than two CTAs do not fill the groups of SMs they must lie in: a grid of 128
/// CTAs took two waves, one of 88 a single one.
bool fits_one_wave(std::int64_t ctas, int splits, int sms) {
  return ctas <= (splits == 2 ? sms : sms * 2 / 3);
}

/// Adding the parts of divided k.
double sum_cycles(const MatmulProblem& p, const Tile& t, Parts parts) {
  if (parts.splits == 1) return 0;
  // Half the rows are read by half the threads.
  if (parts.clustered) return (kClusterCycles + kClusterPartCycles * parts.splits) * 128 / t.rows();
  const double bytes = static_cast<double>(p.m) * static_cast<double>(p.n) * 8;
  return kReduceCycles + parts.splits * (kPartCycles + bytes / kPartBytesPerCycle);
}

double estimate(const MatmulProblem& p, const Tile& t, int stages, Parts parts, int sms) {
  const int size = size_bytes(p.operands);
  const std::int64_t ctas = ceil_div(p.m, t.bm) * ceil_div(p.n, t.bn) * parts.splits;
  const auto steps = static_cast<double>(ceil_div(ceil_div(p.k * size, kStepBytes), parts.splits));
  const double tensor = 2.0 * t.bm * t.bn * kStepBytes /
                        (kFlopBytesPerCycle * tensor_share(t.columns())),
               bytes = t.bytes_of_step() * (p.whole_lines ? 1.0 : 2.0);
  const int at_once = ctas_per_sm(t, stages);
  // A wave of `c` CTAs an SM shares its tensor cores and its part of the L2's bandwidth.
  const auto wave = [&](double c) {
    return kTileCycles + steps * std::max({tensor * c + kStepCycles, bytes * c / kL2BytesPerCycle,
                                           kLatencyCycles / stages});
  };
  const std::int64_t full = ctas / (sms * at_once), rest = ctas % (sms * at_once);
  double cycles = kFixedCycles + static_cast<double>(full) * wave(at_once);
  if (rest > 0) cycles += wave(static_cast<double>(ceil_div(rest, sms)));
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  cycles = soft_max(cycles, kFixedCycles + size * (m * k + k * n) / kDramBytesPerCycle);
  return cycles + sum_cycles(p, t, parts);
}

/// Without wgmma: the tile of mma.sync or of FMA.
MatmulConfig older_config(const MatmulProblem& p) {
  if (p.operands == DType::f32)
    return p.tf32 ? MatmulConfig{128, 128, 32} : MatmulConfig{64, 64, 16};
  if (size_bytes(p.operands) == 1) return {64, 64, 64};
  // Wider ones do not fit the registers where rows are not aligned for cp.async.
  return {p.m <= 64 ? 64 : 128, p.n <= 64 ? 64 : 128, 32};
}

}  // namespace

std::string MatmulConfig::str() const {
  return std::to_string(bm) + "x" + std::to_string(bn) + "x" + std::to_string(bk) +
         (splits > 1 ? (clustered ? " cluster " : " split ") + std::to_string(splits) : "") +
         (swapped ? " swapped" : "") + (multicast ? " multicast" : "") +
         (stages != 0 ? " stages " + std::to_string(stages) : "");
}

namespace {

MatmulConfig best_config(const MatmulProblem& p, int sms) {
  if (!p.by_wgmma || (p.operands == DType::f32 && !p.tf32)) return older_config(p);
  const int bk = kStepBytes / size_bytes(p.operands);
  MatmulConfig best;
  double least = INFINITY;
  const auto consider = [&](const Tile& t, int stages, Parts parts) {
    const double cycles = estimate(p, t, stages, parts, sms);
    if (cycles >= least) return;
    least = cycles;
    best = {t.bm, t.bn, bk, parts.splits, t.swapped, parts.clustered, stages};
  };
  const auto try_stages = [&](const Tile& t, int stages) {
    for (int splits = 1; splits <= (p.whole ? 1 : kMaxSplits); ++splits) {
      if (splits > 1 && p.k < 8 * bk * splits) break;
      consider(t, stages, {splits});
      const bool is_cluster = splits == 2 || splits == 4 || splits == 8;
      if (is_cluster &&
          fits_one_wave(ceil_div(p.m, t.bm) * ceil_div(p.n, t.bn) * splits, splits, sms))
        consider(t, stages, {splits, true});
    }
  };
  const auto try_tile = [&](const Tile& t) {
    if (p.promoted && t.bn > kPromotedColumns) return;
    // A ring as deep as it can be for the CTAs that share an SM: a shallow one leaves room for more
    // of them.
    const int deepest = std::min(t.stages_that_fit(), kStages.back());
    for (const int wanted : kStages) {
      const int stages = std::min(wanted, deepest);
      const int deeper = std::min(wanted + 2, deepest);
      if (deeper > stages && ctas_per_sm(t, deeper) == ctas_per_sm(t, stages)) continue;
      try_stages(t, stages);
      if (stages == deepest) break;
    }
  };
  if (p.m <= kFewRows) {
    for (const Tile& t : kSwappedTiles)
      if (p.m <= t.bm) try_tile(t);
    return best;
  }
  std::ranges::for_each(kTiles, try_tile);
  if (p.b_k_major) std::ranges::for_each(kOddTiles, try_tile);
  return best;
}

/// Hundreds of estimates cost more than a launch, and a program multiplies few shapes many times.
class Remembered {
 public:
  const MatmulConfig& of(const MatmulProblem& p, int sms) {
    const auto hash =
        static_cast<std::uint64_t>(p.m * 31 + p.n) * 0x9e3779b97f4a7c15u + std::uint64_t(p.k);
    Entry& e = entries_[(hash * 0x9e3779b97f4a7c15u) >> 56];
    if (e.sms != sms || e.problem != p) e = {p, sms, best_config(p, sms)};
    return e.config;
  }

 private:
  struct Entry {
    MatmulProblem problem;
    int sms = 0;
    MatmulConfig config;
  };
  std::array<Entry, 256> entries_;
};

}  // namespace

MatmulConfig matmul_config(const MatmulProblem& p, int sms) {
  thread_local Remembered remembered;
  return remembered.of(p, sms);
}

}  // namespace tegula
