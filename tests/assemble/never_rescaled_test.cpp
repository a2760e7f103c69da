// Attention whose softmax is never rescaled, in the tiles that are chosen for it, and the kernel
// that computes needs_recompute tiles again.
#include "tegula/attention_tiles.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/assemble/assembled.h"
#include "tests/placed_barriers.h"

namespace tegula::never_rescaled_test {
using namespace kernels;
namespace {

using test::all_traced;
using test::Assembled;
using test::expect_clean;
using test::here;
using test::host;
using test::placed_barriers;

/// The shapes that tiles are chosen from.
enum class Shape : std::uint8_t { standard, wide, tall };

class NeverRescaled : public Assembled {
 protected:
  static void expect_both_clean(const AttentionSpec& spec, KvExtent kv_extent, int dim,
                                Shape shape = Shape::standard) {
    const ScoreTraits cost = spec.score ? ScoreFunction(spec.score).cost() : ScoreTraits();
    const TileRequirements needs{dim, dim, cost, false, spec.score != nullptr};
    const AttentionTileShape tiles = shape == Shape::standard ? attention_tiles(needs)
                                     : shape == Shape::wide
                                         ? large_n_tiles(needs)
                                         : three_warpgroup_tiles(needs, kv_extent);
    SCOPED_TRACE(testing::Message()
                 << "head dim " << dim << ", tiles of " << tiles.block_q << "x" << tiles.block_kv);
    const Tensor t = host({1, 1, 64, dim}), O = host({1, 1, 64, dim});
    const Attention attention(spec, {.tiles = tiles}, {.rescaling = Rescaling::never});
    std::vector<std::string> names{"attention"};
    // The second one has the same keys a step in either form, and was compiled then.
    if (shape != Shape::wide) names.emplace_back("attention_recompute");
    for (const ir::Kernel& tile : all_traced(names, [&] { attention(t, t, t, O); })) {
      // Its tiles share nothing but marks, whose atomic operations commute.
      EXPECT_EQ(placed_barriers(tile, "sm_90a"), 0);
      for (const runtime::Backend backend : here()) {
        // NVVM keeps 16 bytes more than fit here, too (AttentionOfManyKeys).
        if (dim == 256 && shape == Shape::wide && spec.mask && backend == runtime::Backend::Nvrtc)
          continue;
        expect_clean(tile, "sm_90a", true, backend);
      }
    }
  }
};

TEST_F(NeverRescaled, AllKeysAndCausal) {
  for (const int dim : {64, 128, 256})
    for (const Shape shape : {Shape::standard, Shape::wide, Shape::tall}) {
      if (shape == Shape::tall && dim > 96) continue;
      expect_both_clean({}, KvExtent::full, dim, shape);
      expect_both_clean({.mask = masks::causal()}, KvExtent::causal, dim, shape);
    }
}

TEST_F(NeverRescaled, LimitsOnBothSides) {
  for (const int dim : {64, 128, 192}) {
    expect_both_clean({.mask = masks::sliding_window(Scalar<i32>(20))}, KvExtent::unknown, dim);
    expect_both_clean({.mask = masks::prefix_lm(Scalar<i32>(20))}, KvExtent::unknown, dim);
  }
}

TEST_F(NeverRescaled, Scores) {
  for (const auto kind : {scores::Tanh::exact, scores::Tanh::approximate})
    expect_both_clean({.mask = masks::causal(), .score = scores::softcap(30.0f, kind)},
                      KvExtent::causal, 128);
  for (const int dim : {64, 128})
    expect_both_clean({.mask = masks::causal(), .score = scores::alibi(4)}, KvExtent::causal, dim);
}

}  // namespace
}  // namespace tegula::never_rescaled_test
