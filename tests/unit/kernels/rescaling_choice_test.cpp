// Conditions under which attention does not update the maximum after the first block.
#include <gtest/gtest.h>

#include "kernels/attention/heuristics.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"

namespace tegula::rescaling_choice_test {
using namespace kernels;
namespace {

AttentionCall call_of(std::int64_t length, DType dtype = DType::bf16, std::int64_t dim = 128) {
  AttentionCall c;
  c.Q = c.K = c.V = c.O =
      Tensor::zeros({1, 1, 1, dim}, dtype, Device::sim()).broadcast_to({4, 16, length, dim});
  return c;
}

bool never(const AttentionSpec& spec, const AttentionCall& call,
           const AttentionNumerics& numerics = {}) {
  return AttentionHeuristics(spec, {}, numerics).config(call).is_speculative;
}

TEST(RescalingChoice, WhereItPays) {
  EXPECT_TRUE(never({}, call_of(4096)));
  EXPECT_TRUE(never({.mask = masks::causal()}, call_of(4096)));
  EXPECT_TRUE(never({.mask = masks::prefix_lm(Scalar<i32>(20))}, call_of(4096)));
  EXPECT_FALSE(never({}, call_of(256))) << "a second launch takes longer than it saves";
  AttentionCall with_maxima = call_of(4096);
  with_maxima.extras.row_max = Tensor::zeros({1}, DType::f32, Device::sim());
  EXPECT_FALSE(never({}, with_maxima));
  EXPECT_FALSE(never({}, call_of(4096), {.rescaling = Rescaling::exact}));
  EXPECT_TRUE(never({}, call_of(256), {.rescaling = Rescaling::never}));
}

/// With f16, every row must certainly attend to the first block.
TEST(RescalingChoice, HalvesHaveLessRange) {
  EXPECT_TRUE(never({.mask = masks::causal()}, call_of(4096, DType::f16)));
  EXPECT_FALSE(never({.mask = masks::sliding_window(1024)}, call_of(4096, DType::f16)));
  EXPECT_FALSE(
      never({.mask = masks::causal(), .score = scores::alibi(16)}, call_of(4096, DType::f16)));
}

/// Scores are largest next to the query, and keys end there.
TEST(RescalingChoice, ScoresOfPositions) {
  const Score alibi = scores::alibi(16);
  EXPECT_TRUE(never({.mask = masks::causal(), .score = alibi}, call_of(4096)));
  EXPECT_TRUE(AttentionHeuristics({.mask = masks::causal(), .score = alibi}).iterates_in_reverse());
  EXPECT_FALSE(never({.score = alibi}, call_of(4096)));
  EXPECT_FALSE(never({.mask = masks::window(500, 500), .score = alibi}, call_of(4096)));
  EXPECT_TRUE(never({.mask = masks::causal(), .score = scores::softcap(30.0f)}, call_of(4096)));
  EXPECT_FALSE(AttentionHeuristics({.score = scores::softcap(30.0f)}).iterates_in_reverse());
  // Scores smallest next to the query: the first block comes first, unless only a launch can
  // determine it.
  EXPECT_FALSE(AttentionHeuristics({.score = scores::relative_bias(1.0f)}).iterates_in_reverse());
  EXPECT_TRUE(AttentionHeuristics({.score = scores::relative_bias(-1.0f)}).iterates_in_reverse());
  EXPECT_TRUE(AttentionHeuristics({.score = scores::relative_bias(Scalar<f32>(1.0f))})
                  .iterates_in_reverse());
  const Score inline_ptx = [](Tile s, Tile, Tile, Tile q, Tile kv) {
    return s + ptx<f32>("neg.f32 $0, $1;", "=f,f", cast<f32>(kv - q));
  };
  EXPECT_TRUE(AttentionHeuristics({.score = inline_ptx}).iterates_in_reverse());
}

/// Rows whose range tensors or the caller determine may begin after their tile's first block.
TEST(RescalingChoice, NotForDataDependentMasks) {
  const Tensor ids = Tensor::zeros({4096}, DType::i32, Device::cpu());
  EXPECT_FALSE(never({.mask = masks::document(ids)}, call_of(4096)));
  AttentionSpec given{.mask = masks::causal()};
  given.full_kv_range = causal_full;
  EXPECT_FALSE(never(given, call_of(4096)));
}

}  // namespace
}  // namespace tegula::rescaling_choice_test
