// The tiles that a product may have; which is taken, an estimate of the time says.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "autotune/product_model.h"
#include "autotune/remembered.h"
#include "tegula/kernels/matmul.h"

namespace tegula {
namespace {

using Tile = autotune::ProductTile;

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
constexpr int kFewRows = 32, kMaxSplits = 16;
/// Of a tile that a thread holds twice.
constexpr int kPromotedColumns = 128;

std::vector<Tile> tiles_for(const MatmulProblem& p) {
  std::vector<Tile> tiles;
  const auto add = [&](const auto& list, const auto& fits) {
    std::ranges::copy_if(list, std::back_inserter(tiles), [&](const Tile& t) {
      return fits(t) && !(p.promoted && t.bn > kPromotedColumns);
    });
  };
  const bool is_flat = p.m <= kFewRows;
  add(kSwappedTiles, [&](const Tile& t) { return is_flat && p.m <= t.bm; });
  const auto is_filled = [&](const Tile& t) { return t.bm == 64 || p.m > t.bm / 2; };
  add(kTiles, [&](const Tile& t) { return !is_flat && is_filled(t); });
  add(kOddTiles, [&](const Tile& t) { return !is_flat && is_filled(t) && p.b_k_major; });
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
std::optional<MatmulConfig> shallow_config(const MatmulProblem& p, int sms) {
  constexpr int kMaxDepth = 192;
  if (!p.copies || p.whole || size_bytes(p.operands) != 2 || p.k > kMaxDepth) return std::nullopt;
  MatmulConfig c{.bm = 64, .bn = 64, .bk = 64};
  c.direct = ((p.m + c.bm - 1) / c.bm) * ((p.n + c.bn - 1) / c.bn) <= sms;
  return c;
}

MatmulConfig best_config(const MatmulProblem& p, int sms) {
  if (!p.by_wgmma || (p.operands == DType::f32 && !p.tf32)) return older_config(p);
  if (const auto shallow = shallow_config(p, sms)) return *shallow;
  const int size = size_bytes(p.operands);
  const autotune::ProductWay way =
      autotune::best_way({p.m, p.n, p.k, size, p.whole_lines, !p.promoted}, tiles_for(p),
                         p.whole ? 1 : kMaxSplits, sms);
  MatmulConfig c{way.tile.bm,   way.tile.bn, Tile::kStepBytes / size, way.splits, way.tile.swapped,
                 way.clustered, way.stages};
  c.alternate = way.alternate;
  // What an epilogue reads comes from L2, too.
  c.multicast = way.alternate && p.whole;
  if (way.alternate) c.stages = 0;
  return c;
}

}  // namespace

std::string MatmulConfig::str() const {
  return std::to_string(bm) + "x" + std::to_string(bn) + "x" + std::to_string(bk) +
         (splits > 1 ? (clustered ? " cluster " : " split ") + std::to_string(splits) : "") +
         (swapped ? " swapped" : "") + (direct ? " direct" : "") + (multicast ? " multicast" : "") +
         (alternate ? " alternate" : "") +
         (streamed != 0 ? " streamed " + std::to_string(streamed) : "") +
         (stages != 0 ? " stages " + std::to_string(stages) : "");
}

MatmulConfig matmul_config(const MatmulProblem& p, int sms) {
  using Asked = std::pair<MatmulProblem, int>;
  thread_local autotune::Remembered<Asked, MatmulConfig> remembered;
  return remembered.of({p, sms}, static_cast<std::uint64_t>((p.m * 31 + p.n) ^ (p.k << 20)),
                       [](const Asked& asked) { return best_config(asked.first, asked.second); });
}

}  // namespace tegula
