// The cost of a score function in registers, found by its trace.
#include "tegula/functions.h"

#include <gtest/gtest.h>

#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"

namespace tegula::score_cost_test {
using namespace kernels;
namespace {

Tensor f32s(const Dims& shape) { return Tensor::zeros(shape, DType::f32, Device::cpu()); }

/// Whether something costly differs from pair to pair, and whether that is of distances only.
struct Costly {
  bool has_per_element_state, is_toeplitz;
  friend bool operator==(const Costly&, const Costly&) = default;
};
Costly costly(const Score& score) {
  const ScoreTraits cost = ScoreFunction(score).cost();
  return {cost.has_per_element_state, cost.is_toeplitz};
}

TEST(ScoreTraits, Distances) {
  constexpr Costly distance{false, true};
  EXPECT_EQ(costly(scores::t5_bias(f32s({32, 4}), 100, true)), distance);
  EXPECT_EQ(costly(scores::t5_bias(f32s({32, 4}), 100, false)), distance);
  EXPECT_EQ(costly(scores::distance_bias(f32s({90, 4}), 30)), distance);
  EXPECT_EQ(costly(scores::compose(scores::softcap(30.0f, scores::Tanh::approximate),
                                   scores::distance_bias(f32s({90, 4}), 30))),
            distance);
}

TEST(ScoreTraits, Pairs) {
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

/// Bytes of a pair that TMA can load, if nothing else is costly.
TEST(ScoreTraits, Boxes) {
  const auto bytes = [](const Score& score) {
    return ScoreFunction(score).cost().tma_bytes_per_element;
  };
  const auto of = [](DType dtype, std::int64_t row) {
    return Tensor::zeros({2, 4, 64, row}, dtype, Device::cpu());
  };
  EXPECT_EQ(bytes(scores::bias(of(DType::bf16, 64))), 2);
  EXPECT_EQ(bytes(scores::bias(of(DType::f32, 64))), 4);
  EXPECT_EQ(bytes(scores::bias(of(DType::f32, 64).slice(3, 0, 61))), 4);
  EXPECT_EQ(bytes(scores::bias(of(DType::bf16, 64).transpose(2, 3))), 2) << "queries contiguous";
  EXPECT_EQ(
      bytes(scores::compose(scores::bias(of(DType::bf16, 64)), scores::bias(of(DType::f32, 64)))),
      6);
  EXPECT_EQ(bytes(scores::compose(scores::softcap(30.0f, scores::Tanh::approximate),
                                  scores::bias(of(DType::bf16, 64)))),
            2);
  EXPECT_EQ(bytes(scores::bias(of(DType::bf16, 61))), 0) << "rows begin anywhere";
  EXPECT_EQ(bytes(scores::bias(of(DType::bf16, 64).slice(3, 1, 64))), 0) << "so does the tensor";
  EXPECT_EQ(bytes(scores::bias(of(DType::bf16, 1))), 0) << "no element of a pair";
  EXPECT_EQ(bytes(scores::compose(scores::bias(of(DType::f32, 64)),
                                  scores::forgetting(f32s({1, 1, 64})))),
            0)
      << "something else is read at keys";
  EXPECT_EQ(bytes(scores::bias(of(DType::bf16, 64).flip(2))), 0) << "rows in descending order";
  const Tensor bits = of(DType::i8, 64), by_both = f32s({64, 64});
  EXPECT_EQ(bytes([=](Tile s, Tile b, Tile h, Tile q, Tile kv) {
              return s + cast<f32>(view<i8, 4>(bits)(b, h, q, kv));
            }),
            0);
  EXPECT_EQ(bytes([=](Tile s, Tile, Tile h, Tile q, Tile kv) {
              if_(h < 2, [&] { s = s + view<f32, 2>(by_both)(q, kv); });
              return s;
            }),
            0)
      << "under a condition";
  EXPECT_EQ(bytes([=](Tile s, Tile, Tile, Tile q, Tile kv) {
              return s + view<f32, 2>(by_both)(q, kv + 4);
            }),
            0);
  EXPECT_EQ(
      bytes([=](Tile s, Tile, Tile, Tile, Tile kv) { return s + view<f32, 2>(by_both)(kv, kv); }),
      0);
}

/// An exactly rounded reciprocal is a function call.
TEST(ScoreTraits, Reciprocals) {
  const auto of = [](Tile (*f)(const Arg&)) {
    return costly([f](Tile s, Tile, Tile, Tile, Tile) { return f(1.0f + exp(-s)); });
  };
  EXPECT_EQ(of(rcp), (Costly{true, false}));
  EXPECT_EQ(of(sqrt), (Costly{true, false}));
  EXPECT_EQ(of(rcp_approx), (Costly{false, false}));
  EXPECT_EQ(costly([](Tile s, Tile, Tile, Tile, Tile) { return s / 2.0f; }),
            (Costly{false, false}));
  EXPECT_EQ(costly([](Tile s, Tile, Tile, Tile q, Tile kv) {
              return s - sqrt(cast<f32>(abs(kv - q)) / (1.0f + abs(cast<f32>(kv - q))));
            }),
            (Costly{false, true}));
  EXPECT_EQ(costly([](Tile s, Tile, Tile, Tile, Tile) { return sigmoid(s); }),
            (Costly{false, false}));
}

TEST(ScoreTraits, Neither) {
  constexpr Costly none{false, false};
  EXPECT_EQ(costly(scores::alibi(4)), none);
  EXPECT_EQ(costly(scores::head_bias(f32s({4}))), none);
  EXPECT_EQ(costly(scores::query_temperature(f32s({90}))), none);
}

}  // namespace
}  // namespace tegula::score_cost_test
