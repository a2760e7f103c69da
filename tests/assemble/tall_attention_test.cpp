// Attention's tiles of 192 queries: three warpgroups of 160 registers per thread.
#include "tegula/attention_tiles.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/assemble/assembled.h"

namespace tegula::tall_attention_test {
using namespace kernels;
namespace {

using namespace test;

/// With what is chosen of keys a step.
void expect_tall(const AttentionSpec& spec, KvExtent kv_extent, int dim) {
  const ScoreTraits cost = spec.score ? ScoreFunction(spec.score).cost() : ScoreTraits();
  const AttentionTileShape tiles =
      three_warpgroup_tiles({dim, dim, cost, false, spec.score != nullptr}, kv_extent);
  SCOPED_TRACE(testing::Message() << "head dim " << dim << ", keys " << tiles.block_kv);
  const Tensor t = host({1, 1, 64, dim}), O = host({1, 1, 64, dim});
  const Attention attention(spec, {.tiles = tiles});
  const ir::Kernel tile = traced("attention", [&] { attention(t, t, t, O); });
  for (const runtime::Backend backend : here()) {
    const ir::Plan plan = expect_clean(tile, "sm_90a", true, backend);
    EXPECT_EQ(plan.num_warps, 12);
    EXPECT_EQ(plan.consumer_registers, tiles.block_kv == 64 ? 152 : 160);
    EXPECT_TRUE(plan.warp_scheduler_barrier);
  }
}

TEST_F(Assembled, AttentionOfTallTiles) {
  for (const int dim : {64, 80, 96}) {
    expect_tall({}, KvExtent::full, dim);
    expect_tall({.mask = masks::causal()}, KvExtent::causal, dim);
    expect_tall({.mask = masks::sliding_window(Scalar<i32>(20))}, KvExtent::unknown, dim);
    expect_tall({.mask = masks::prefix_lm(Scalar<i32>(20))}, KvExtent::unknown, dim);
  }
}

TEST_F(Assembled, AttentionOfTallTilesWithScores) {
  const auto f32s = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::f32, Device::cpu());
  };
  const Score cap = scores::softcap(30.0f, scores::Tanh::approximate);
  for (const Score& score :
       {scores::softcap(30.0f), scores::compose(cap, scores::alibi(1)),
        scores::forgetting(f32s({1, 1, 64})), scores::bias(f32s({1, 1, 64, 64})),
        scores::t5_bias(f32s({32, 1}), 128, true)}) {
    expect_tall({.mask = masks::causal(), .score = score}, KvExtent::causal, 64);
    expect_tall({.mask = masks::sliding_window(Scalar<i32>(20)), .score = score}, KvExtent::unknown,
                64);
  }
}

/// Rows of several heads or of a part of a tensor, with all outputs there are.
TEST_F(Assembled, TallTilesOfSequencesAndGroups) {
  const Stream cpu(Device::cpu());
  const auto numbers = [](std::initializer_list<std::int64_t> shape) {
    return Tensor::zeros(Dims(shape), DType::f32, Device::cpu());
  };
  const Attention attention(
      {.mask = masks::causal()},
      {.tiles = three_warpgroup_tiles({64, 64}, KvExtent::causal), .pack_gqa = true});
  const Tensor q = host({16, 4, 64}), kv = host({16, 2, 64}), o = host({16, 4, 64});
  const Tensor starts = Tensor::zeros({2}, DType::i32, Device::cpu());
  const AttentionExtras extras{numbers({16, 4}), numbers({16, 4}), numbers({4})};
  expect_clean(traced("attention",
                      [&] { attention.varlen(cpu, q, kv, kv, o, {starts, starts, 16}, extras); }),
               "sm_90a", true);
  const Tensor Q = host({1, 4, 100, 64}), KV = host({1, 2, 100, 64}), O = host({1, 4, 100, 64});
  const AttentionExtras packed{numbers({1, 4, 100}), numbers({1, 4, 100}), numbers({4})};
  expect_clean(traced("attention", [&] { attention(cpu, Q, KV, KV, O, packed); }), "sm_90a", true);
}

}  // namespace
}  // namespace tegula::tall_attention_test
