// What a score function asks of registers, found by its trace.
#include "kernels/attention/score_cost.h"

#include <gtest/gtest.h>

#include "tegula/tegula.h"

namespace tegula {
namespace {

Tensor f32s(const Dims& shape) { return Tensor::zeros(shape, DType::f32, Device::cpu()); }

/// Whether something costly differs from pair to pair, and whether that is of distances only.
struct Costly {
  bool of_element, of_distance;
  friend bool operator==(const Costly&, const Costly&) = default;
};
Costly costly(const Score& score) {
  const ScoreCost cost = score_cost(score);
  return {cost.of_element, cost.of_distance};
}

TEST(ScoreCost, OfDistances) {
  constexpr Costly distance{false, true};
  EXPECT_EQ(costly(scores::t5_bias(f32s({32, 4}), 100, true)), distance);
  EXPECT_EQ(costly(scores::t5_bias(f32s({32, 4}), 100, false)), distance);
  EXPECT_EQ(costly(scores::distance_bias(f32s({90, 4}), 30)), distance);
  EXPECT_EQ(costly(scores::then(scores::softcap(30.0f, scores::Tanh::approximate),
                                scores::distance_bias(f32s({90, 4}), 30))),
            distance);
}

TEST(ScoreCost, OfPairs) {
  constexpr Costly element{true, false};
  const Tensor by_key = f32s({90}), by_both = f32s({90, 90});
  EXPECT_EQ(costly(scores::bias(f32s({1, 1, 64, 64}))), element);
  EXPECT_EQ(costly(scores::forgetting(f32s({1, 1, 64}))), element);
  EXPECT_EQ(costly([=](Tile s, Tile, Tile, Tile q, Tile kv) {
              return s + view<f32, 2>(by_both)(q, kv - q);
            }),
            element);
  EXPECT_EQ(costly([=](Tile s, Tile, Tile, Tile q, Tile kv) {
              return s + view<f32, 1>(by_key)(kv - q + q / 2);
            }),
            element);
  EXPECT_EQ(costly([=](Tile s, Tile, Tile, Tile q, Tile kv) {
              return s + view<f32, 1>(by_key)(kv - q) + view<f32, 1>(by_key)(kv);
            }),
            (Costly{true, true}));
  // Scaled distances are sums of what rows and columns are.
  EXPECT_EQ(costly([](Tile s, Tile, Tile, Tile q, Tile kv) {
              return s - tanh(cast<f32>(q - kv) * 0.01f);
            }),
            element);
}

TEST(ScoreCost, OfNeither) {
  constexpr Costly none{false, false};
  EXPECT_EQ(costly(scores::alibi(4)), none);
  EXPECT_EQ(costly(scores::head_bias(f32s({4}))), none);
  EXPECT_EQ(costly(scores::query_temperature(f32s({90}))), none);
}

}  // namespace
}  // namespace tegula
