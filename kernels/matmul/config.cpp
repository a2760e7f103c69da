// Choice of a configuration: an estimate of the time in cycles, for every row of a short list.
#include <algorithm>
#include <array>
#include <cmath>

#include "tegula/kernels/matmul.h"

namespace tegula {
namespace {

// Of an H200 SM, dense bf16 (CUDA C programming guide; L2 bandwidth measured: research/gemm.md a).
constexpr double kFlopsPerCycle = 4096, kL2BytesPerCycle = 33, kTensorShare = 0.9;
// Launch, first copies and the epilogue of a CTA; and of the second kernel of split sums.
constexpr double kFixedCycles = 3500, kReduceCycles = 6000, kDramBytesPerCycle = 2300;
constexpr int kSharedBytes = 225 * 1024, kMaxStages = 4, kMaxSplits = 16;

struct Tile {
  int bm, bn;
};
// No 96, 160 or 224 columns: rows of B that are no multiple of 128 bytes come in pieces of 64, and
// were slower than the next wider tile on every shape tried.
constexpr std::array kTiles{Tile{128, 256}, Tile{128, 192}, Tile{128, 128},
                            Tile{128, 64},  Tile{64, 256},  Tile{64, 192},
                            Tile{64, 128},  Tile{64, 64},   Tile{64, 32}};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// CTAs of this tile that an SM holds at once.
int ctas_per_sm(const Tile& t, int bk) {
  const int ring = kMaxStages * (t.bm + t.bn) * bk * 2;
  const int by_registers = 65536 / (2 * t.bm * (t.bn / 2 + 56));
  return std::clamp(std::min(kSharedBytes / ring, by_registers), 1, 4);
}

double estimate(std::int64_t m, std::int64_t n, std::int64_t k, const Tile& t, int bk, int splits,
                int sms) {
  const std::int64_t ctas = ceil_div(m, t.bm) * ceil_div(n, t.bn) * splits;
  const auto steps = static_cast<double>(ceil_div(ceil_div(k, bk), splits));
  const double tensor = 2.0 * t.bm * t.bn * bk / (kFlopsPerCycle * kTensorShare),
               bytes = 2.0 * (t.bm + t.bn) * bk / kL2BytesPerCycle;
  const int at_once = ctas_per_sm(t, bk);
  // A wave of `c` CTAs an SM shares its tensor cores and its part of the L2's bandwidth.
  const auto wave = [&](double c) { return kFixedCycles + steps * c * std::max(tensor, bytes); };
  const std::int64_t full = ctas / (sms * at_once), rest = ctas % (sms * at_once);
  double cycles = static_cast<double>(full) * wave(at_once);
  if (rest > 0) cycles += wave(static_cast<double>(ceil_div(rest, sms)));
  if (splits > 1)
    cycles += kReduceCycles +
              static_cast<double>(m) * static_cast<double>(n) * 8.0 * splits / kDramBytesPerCycle;
  return cycles;
}

}  // namespace

std::string MatmulConfig::str() const {
  return std::to_string(bm) + "x" + std::to_string(bn) + "x" + std::to_string(bk) +
         (splits > 1 ? " split " + std::to_string(splits) : "");
}

MatmulConfig matmul_config(std::int64_t m, std::int64_t n, std::int64_t k, int sms) {
  MatmulConfig best;
  double least = INFINITY;
  for (const Tile& t : kTiles)
    for (int splits = 1; splits <= kMaxSplits; ++splits) {
      if (splits > 1 && k < 512 * splits) break;
      const double cycles = estimate(m, n, k, t, best.bk, splits, sms);
      // Ties go to the larger tile, which moves fewer bytes.
      if (cycles >= least * 0.995) continue;
      least = cycles;
      best = {t.bm, t.bn, best.bk, splits};
    }
  return best;
}

}  // namespace tegula
