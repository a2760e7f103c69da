// Scores that give -inf for some pairs: the same results, and the schedule, of a mask and a score.
#include <cmath>

#include "ir/text.h"
#include "kernels/attention/heuristics.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/assemble/assembled.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::score_split_test {
using namespace kernels;
namespace {

constexpr float kInf = INFINITY;

/// Case of a score function.
struct Found {
  bool has_mask, has_score;
  friend bool operator==(const Found&, const Found&) = default;
};
Found split(const Score& score, const Mask& mask = {}) {
  const AttentionSpec spec = AttentionHeuristics({.mask = mask, .score = score}).spec;
  return {spec.mask != nullptr, spec.score != nullptr};
}

TEST(ScoreSplit, ScoresThatAreSplit) {
  const Found mask_alone{true, false}, both{true, true};
  EXPECT_EQ(split([](Tile s, Tile, Tile, Tile q, Tile kv) { return where(q >= kv, s, -kInf); }),
            mask_alone);
  EXPECT_EQ(split([](Tile s, Tile, Tile, Tile q, Tile kv) { return where(q < kv, -kInf, s); }),
            mask_alone);
  EXPECT_EQ(split([](Tile s, Tile, Tile, Tile q, Tile kv) {
              return where(q >= kv, where(q - kv < 9, s * 2.0f, -kInf), -kInf);
            }),
            both);
  EXPECT_EQ(split([](Tile s, Tile b, Tile h, Tile q, Tile kv) {
              return where(q >= kv, scores::softcap(2.0f)(s, b, h, q, kv), -kInf);
            }),
            both);
}

TEST(ScoreSplit, ScoresThatAreNotSplit) {
  const Found score_alone{false, true};
  EXPECT_EQ(split(scores::softcap(2.0f)), score_alone);
  EXPECT_EQ(split([](Tile s, Tile, Tile, Tile, Tile) { return where(s > 0.0f, s, -kInf); }),
            score_alone)
      << "which pairs there are depends on the score";
  EXPECT_EQ(split([](Tile s, Tile, Tile, Tile q, Tile kv) { return where(q >= kv, s, -1e30f); }),
            score_alone);
  EXPECT_EQ(
      split([](Tile s, Tile, Tile, Tile q, Tile kv) { return where(q >= kv, s, -kInf) * 2.0f; }),
      score_alone);
}

/// A list or a range of the caller's says which blocks the mask need not be asked about; the score
/// is asked about all.
TEST(ScoreSplit, KeysThatTheCallerNamesKeepTheScore) {
  const AttentionHeuristics facts(
      {.score = [](Tile s, Tile, Tile, Tile q, Tile kv) { return where(q >= kv, s, -kInf); },
       .kv_range = causal_range});
  EXPECT_FALSE(facts.spec.mask);
  EXPECT_TRUE(facts.spec.score);
}

TEST(ScoreSplit, KeysAreFoundAsOfTheMask) {
  const AttentionHeuristics split(
      {.score = [](Tile s, Tile, Tile, Tile q, Tile kv) { return where(q >= kv, s, -kInf); }});
  EXPECT_EQ(split.traversal.kv_extent(),
            AttentionHeuristics({.mask = masks::causal()}).traversal.kv_extent());
  EXPECT_NE(split.traversal.kv_extent(), KvExtent::full);
}

/// Not only alike: the same machine code.
TEST(ScoreSplit, TheWholeScoreIsSplitOff) {
  const auto text_of = [](const AttentionSpec& spec) {
    const Tensor t = host({1, 1, 64, 64}), O = host({1, 1, 64, 64});
    const Attention attention(spec);
    const ir::Kernel tile = traced("attention", [&] { attention(t, t, t, O); });
    runtime::CompileRequest request;
    request.target = ir::Target("sm_90a");
    return ir::print(optimized(tile, request).simt, ir::PrintOptions{.locations = false});
  };
  const Score capped = scores::softcap(30.0f);
  const auto both = [&](Tile s, Tile b, Tile h, Tile q, Tile kv) {
    return where(q >= kv, capped(s, b, h, q, kv), -kInf);
  };
  EXPECT_EQ(text_of({.score = both}), text_of({.mask = masks::causal(), .score = capped}));
}

class SplitScores : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, SplitScores, testing::ValuesIn(devices()), device_name);

/// A window given by a Scalar, with a mask and a score that is not the identity.
TEST_P(SplitScores, Results) {
  const Device device = GetParam();
  const Scalar<i32> window(20);
  const Attention attention(
      {.mask = masks::causal(), .score = [window](Tile s, Tile, Tile h, Tile q, Tile kv) {
         const Tile biased = s + cast<f32>(h) * 0.25f;
         return where(q - kv < window, biased, -kInf);
       }});
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv && q - kv < 20; };
  host.score = [](double s, int, int h, int, int) { return s + 0.25 * h; };
  const Tensors t({2, 4, 2, 70, 133, 32, 32}, DType::bf16, Order::bhsd, device);
  attention(Stream(device), t.Q, t.K, t.V, t.O, t.extras());
  expect_attention(host, t, /*maxima=*/true);
}

/// A choice of whole rows inside of a choice of pairs: the inner select has fewer dimensions than
/// what it is chosen for, so that a broadcast stands between the two.
TEST_P(SplitScores, RowsInsideOfPairs) {
  const Device device = GetParam();
  const Attention attention({.score = [](Tile s, Tile, Tile h, Tile q, Tile kv) {
    const Tile of_rows = where(q % 7 == 1, -kInf, s);
    return where((q + kv) % 5 == 0, -kInf, where(h == 1, -kInf, of_rows));
  }});
  HostAttention host;
  host.mask = [](int, int h, int q, int kv) { return q % 7 != 1 && h != 1 && (q + kv) % 5 != 0; };
  const Tensors t({1, 2, 1, 70, 133, 32, 32}, DType::bf16, Order::bhsd, device);
  attention(Stream(device), t.Q, t.K, t.V, t.O, t.extras());
  expect_attention(host, t, /*maxima=*/true);
}

}  // namespace
}  // namespace tegula::test::score_split_test
