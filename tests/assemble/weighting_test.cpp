// Attention whose weights are no softmax.
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/assemble/assembled.h"

namespace tegula::weighting_test {
using namespace kernels;
namespace {

using namespace test;

TEST_F(Assembled, AttentionWithoutSoftmax) {
  const Score narrow = [](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
    return rcp(1.0f + exp(-s));
  };
  const Score wide = [](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
    return sigmoid(s);
  };
  struct Case {
    AttentionNormalization weighting;
    Score score;
    int largest_dim;  // wider values spill a few registers
    bool for_sm_80 = true;
  };
  for (const Case& c : {Case{AttentionNormalization::none, narrow, 256},
                        Case{AttentionNormalization::none, wide, 256, false},
                        Case{AttentionNormalization::stick_breaking, {}, 128},
                        Case{AttentionNormalization::stick_breaking, scores::alibi(1), 128}})
    for (const int dim : {64, 128, 256}) {
      if (dim > c.largest_dim) continue;
      SCOPED_TRACE(testing::Message() << static_cast<int>(c.weighting) << ", head dim " << dim);
      const Attention attention(
          {.mask = masks::causal(), .score = c.score, .weighting = c.weighting});
      const Tensor t = host({1, 1, 64, dim}), O = host({1, 1, 64, dim});
      const ir::Kernel tile = traced("attention", [&] { attention(t, t, t, O); });
      for (const runtime::Backend backend : here())
        EXPECT_TRUE(expect_clean(tile, "sm_90a", true, backend).wgmma);
      if (c.for_sm_80 && dim <= 128) expect_clean(tile, "sm_80", false);
    }
}

}  // namespace
}  // namespace tegula::weighting_test
