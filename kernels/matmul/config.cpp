// Choice of a configuration: an estimate of the time in cycles, for every row of a short list.
#include <algorithm>
#include <array>
#include <cmath>

#include "tegula/kernels/matmul.h"

namespace tegula {
namespace {

// Of an H200 SM, dense (CUDA C programming guide; L2 bandwidth as published measurements have it).
// What one instruction takes of a row is 32 bytes for every type.
constexpr double kFlopBytesPerCycle = 8192, kL2BytesPerCycle = 33, kTensorShare = 0.9;
// Launch, first copies and the epilogue of a CTA; and of the second kernel of split sums.
constexpr double kFixedCycles = 3500, kReduceCycles = 6000, kDramBytesPerCycle = 2300;
constexpr int kSharedBytes = 225 * 1024, kMaxStages = 4, kMaxSplits = 16, kStepBytes = 128;

struct Tile {
  int bm, bn;
};
constexpr std::array kTiles{Tile{128, 256}, Tile{128, 192}, Tile{128, 128},
                            Tile{128, 64},  Tile{64, 256},  Tile{64, 192},
                            Tile{64, 128},  Tile{64, 64},   Tile{64, 32}};
/// Only where k is contiguous in B. Else rows of B that are no multiple of 128 bytes come in pieces
/// of 64, which was slower than the next wider tile on every shape tried.
constexpr std::array kOddTiles{Tile{128, 224}, Tile{128, 176}, Tile{128, 160}, Tile{128, 112},
                               Tile{128, 96},  Tile{64, 224},  Tile{64, 160},  Tile{64, 96}};

/// Of a tile that a thread holds twice.
constexpr int kPromotedColumns = 128;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// CTAs of this tile that an SM holds at once.
int ctas_per_sm(const Tile& t) {
  const int ring = kMaxStages * (t.bm + t.bn) * kStepBytes;
  const int by_registers = 65536 / (2 * t.bm * (t.bn / 2 + 56));
  return std::clamp(std::min(kSharedBytes / ring, by_registers), 1, 4);
}

double estimate(const MatmulProblem& p, const Tile& t, int splits, int sms) {
  const int size = size_bytes(p.operands);
  const std::int64_t ctas = ceil_div(p.m, t.bm) * ceil_div(p.n, t.bn) * splits;
  const auto steps = static_cast<double>(ceil_div(ceil_div(p.k * size, kStepBytes), splits));
  const double tensor = 2.0 * t.bm * t.bn * kStepBytes / (kFlopBytesPerCycle * kTensorShare),
               bytes = static_cast<double>(t.bm + t.bn) * kStepBytes / kL2BytesPerCycle;
  const int at_once = ctas_per_sm(t);
  // A wave of `c` CTAs an SM shares its tensor cores and its part of the L2's bandwidth.
  const auto wave = [&](double c) { return kFixedCycles + steps * c * std::max(tensor, bytes); };
  const std::int64_t full = ctas / (sms * at_once), rest = ctas % (sms * at_once);
  double cycles = static_cast<double>(full) * wave(at_once);
  if (rest > 0) cycles += wave(static_cast<double>(ceil_div(rest, sms)));
  if (splits > 1)
    cycles += kReduceCycles + static_cast<double>(p.m) * static_cast<double>(p.n) * 8.0 * splits /
                                  kDramBytesPerCycle;
  return cycles;
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
         (swapped ? " swapped" : "");
}

MatmulConfig matmul_config(const MatmulProblem& p, int sms) {
  if (!p.by_wgmma || (p.operands == DType::f32 && !p.tf32)) return older_config(p);
  const int bk = kStepBytes / size_bytes(p.operands);
  MatmulConfig best;
  double least = INFINITY;
  const auto try_tile = [&](const Tile& t) {
    if (p.promoted && t.bn > kPromotedColumns) return;
    for (int splits = 1; splits <= (p.whole ? 1 : kMaxSplits); ++splits) {
      if (splits > 1 && p.k < 8 * bk * splits) break;
      const double cycles = estimate(p, t, splits, sms);
      // Ties go to the larger tile, which moves fewer bytes.
      if (cycles >= least * 0.995) continue;
      least = cycles;
      best = {t.bm, t.bn, bk, splits};
    }
  };
  std::ranges::for_each(kTiles, try_tile);
  if (p.b_k_major) std::ranges::for_each(kOddTiles, try_tile);
  return best;
}

}  // namespace tegula
