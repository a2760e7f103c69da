// A grouped product over ragged rows: C = A W[s]^T in each segment s.
#include <array>

#include "bench/bench.h"
#include "tegula/configured_kernel.h"
#include "tegula/expert_config.h"
#include "tegula/tegula.h"

namespace tegula::bench {
namespace {

/// A [rows, k], W [segments, n, k], offsets [segments + 1], C [rows, n].
struct GroupedProduct {
  ExpertTileConfig config{};

  void operator()(In<bf16, 2> A, In<bf16, 3> W, In<i32, 1> offsets, Out<bf16, 2> C) const {
    const ExpertTileConfig& v = config;
    for (auto [s, m, n] :
         grid(segments(offsets, A.rows()).by(C.cols()), v.bm, v.bn, group_m(v.group_m))) {
      Tile sum = v.swap_ab ? zeros<f32>(v.bn, v.bm) : zeros<f32>(v.bm, v.bn);
      for (auto k : steps(A.cols(), v.bk).stages(v.stages))
        sum = v.swap_ab ? dot(W(s, n, k), A(m, k).T(), sum) : dot(A(m, k), W(s, n, k).T(), sum);
      C.partial();  // rows behind the last segment
      C(m, n) = v.swap_ab ? sum.T() : sum;
    }
  }
};

/// The same in clusters of two, which load a part of W[s] for both.
struct PairedProduct : GroupedProduct {
  PlanPatch plan() const { return {.multicast = true}; }
};

/// Tiles that compete where segments have many rows, by number from 1 on.
constexpr std::array kTiles{
    ExpertTileConfig{.bm = 128, .bn = 256}, ExpertTileConfig{.bm = 128, .bn = 128},
    ExpertTileConfig{.bm = 256, .bn = 128}, ExpertTileConfig{.bm = 64, .bn = 256},
    ExpertTileConfig{.bm = 128, .bn = 256, .group_m = 2}};

/// A, W, offsets, C; the number of the tiles, 0 for those that the library chooses.
template <class Product>
void run_grouped(const Stream& s, Tensors t, double number) {
  static ConfiguredKernel<Product> product("grouped_matmul", {});
  const std::int64_t groups = t[1].size(0);
  const ExpertTileConfig tiles =
      number > 0 ? kTiles.at(static_cast<std::size_t>(number) - 1)
                 : choose_expert_tiles({t[0].size(0) / groups, t[1].size(1), t[0].size(1), groups,
                                        ExpertProduct::down, DType::bf16},
                                       t[0].device());
  product.of(tiles)(s, t[0], t[1], t[2], t[3]);
}

}  // namespace

void add_grouped_cases(std::vector<Case>& list) {
  list.push_back({"grouped_matmul", run_grouped<GroupedProduct>});
  list.push_back({"grouped_matmul_pairs", run_grouped<PairedProduct>});
}

}  // namespace tegula::bench
