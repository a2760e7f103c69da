// A grouped product over ragged rows: C = A W[s]^T in each segment s.
#include <array>
#include <optional>

#include "bench/bench.h"
#include "tegula/configured_kernel.h"
#include "tegula/expert_config.h"
#include "tegula/tegula.h"

namespace tegula::bench {
namespace {

/// A [rows, k], W [segments, n, k], offsets [segments + 1], C [rows, n]. With `first_tiles`, tile
/// numbers have no gaps.
struct GroupedProduct {
  ExpertTileConfig config{};

  void operator()(In<bf16, 2> A, In<bf16, 3> W, In<i32, 1> offsets,
                  std::optional<In<i32, 1>> first_tiles, Out<bf16, 2> C) const {
    const ExpertTileConfig& v = config;
    Segments rows = segments(offsets, A.rows()).by(C.cols());
    if (first_tiles) rows = rows.numbered(*first_tiles);
    for (auto [s, m, n] : grid(rows, v.bm, v.bn, group_m(v.group_m))) {
      Tile sum = v.swap_ab ? zeros<f32>(v.bn, v.bm) : zeros<f32>(v.bm, v.bn);
      for (auto k : steps(A.cols(), v.bk).stages(v.stages))
        sum = v.swap_ab ? dot(W(s, n, k), A(m, k).T(), sum) : dot(A(m, k), W(s, n, k).T(), sum);
      C.partial();  // rows after the last segment
      C(m, n) = v.swap_ab ? sum.T() : sum;
    }
  }
  PlanPatch plan() const { return config.multicast ? PlanPatch{.multicast = true} : PlanPatch{}; }
};

/// Computes the number of the first tile of each of 64 segments, and the number of all tiles.
struct FirstTiles {
  static constexpr int kEntries = 65;
  ExpertTileConfig config{};

  void operator()(In<i32, 1> offsets, Out<i32, 1> first_tiles) const {
    for ([[maybe_unused]] auto i : grid(GridSpace({1}), 1)) {
      const Tile begin = offsets(slice(0, kEntries)), end = offsets(slice(1, kEntries)),
                 tiles = (fill_absent(end - begin, 0) + (config.bm - 1)) / config.bm;
      first_tiles(slice(0, kEntries)) = cumsum(tiles, 0, {.exclusive = true});
    }
  }
};

/// Candidate tiles for segments of many rows, numbered from 1.
constexpr std::array kGroupedTiles{
    ExpertTileConfig{.bm = 128, .bn = 256}, ExpertTileConfig{.bm = 128, .bn = 128},
    ExpertTileConfig{.bm = 256, .bn = 128}, ExpertTileConfig{.bm = 64, .bn = 256},
    ExpertTileConfig{.bm = 128, .bn = 256, .group_m = 2}};

/// Returns the tiles of a number; for 0, the library's choice.
ExpertTileConfig tiles_of(const Tensors& t, double number) {
  if (number > 0) return kGroupedTiles.at(static_cast<std::size_t>(number) - 1);
  const std::int64_t groups = t[1].size(0);
  return choose_expert_tiles(
      {t[0].size(0) / groups, t[1].size(1), t[0].size(1), groups, ExpertProduct::down, DType::bf16},
      t[0].device());
}

ConfiguredKernel<GroupedProduct>& grouped_product() {
  static ConfiguredKernel<GroupedProduct> kernels("grouped_matmul", {});
  return kernels;
}

/// A, W, offsets, C; number: the tiles.
void run_grouped(const Stream& s, Tensors t, double number) {
  ExpertTileConfig tiles = tiles_of(t, number);
  tiles.multicast = false;  // segments without first tiles have gaps
  grouped_product().of(tiles)(s, t[0], t[1], t[2], Tensor(), t[3]);
}

/// A, W, offsets, first tiles (memory for them), C; number: the tiles, in clusters of two that each
/// load a part of W[s] for both.
void run_pairs(const Stream& s, Tensors t, double number) {
  static ConfiguredKernel<FirstTiles> first_tiles("grouped_first_tiles", {});
  ExpertTileConfig tiles = tiles_of(t, number);
  tiles.multicast = true;
  first_tiles.of(tiles)(s, t[2], t[3]);
  grouped_product().of(tiles)(s, t[0], t[1], t[2], t[3], t[4]);
}

}  // namespace

void add_grouped_cases(std::vector<Case>& list) {
  list.push_back({"grouped_matmul", run_grouped});
  list.push_back({"grouped_matmul_pairs", run_pairs});
}

}  // namespace tegula::bench
