// The shape of attention's tiles where a score reads tensors at pairs.
#include <gtest/gtest.h>

#include "kernels/attention/heuristics.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

AttentionCall call_of(std::int64_t dim) {
  AttentionCall c;
  c.Q = c.K = c.V = c.O = Tensor::zeros({1, 2, 256, dim}, DType::bf16, Device::sim());
  return c;
}
TileShapeClass form(const AttentionSpec& spec, const AttentionCall& call,
                    const AttentionSchedule& schedule = {}) {
  return AttentionHeuristics(spec, schedule).form(call);
}
Score sum_of_biases(int count) {
  const Tensor all = Tensor::zeros({count, 256, 256}, DType::f32, Device::cpu());
  return [=](Tile s, Tile, Tile, Tile q, Tile kv) {
    for (int n = 0; n < count; ++n) s = s + view<f32, 3>(all)(n, q, kv);
    return s;
  };
}

TEST(TileFormChoice, TensorsAtPairs) {
  const Score bias = scores::bias(Tensor::zeros({1, 1, 256, 256}, DType::bf16, Device::cpu()));
  EXPECT_EQ(form({.score = bias}, call_of(128)), TileShapeClass::tma_bias);
  EXPECT_NE(form({.score = bias}, call_of(128), {.tma_aux_loads = false}),
            TileShapeClass::tma_bias);
  EXPECT_NE(
      form({.score = bias, .weighting = AttentionNormalization::stick_breaking}, call_of(128)),
      TileShapeClass::tma_bias);
  EXPECT_EQ(form({.score = sum_of_biases(1)}, call_of(128)), TileShapeClass::tma_bias);
  // Beside so many there is room for fewer keys than where threads load them, or for none.
  for (const int count : {4, 12})
    EXPECT_NE(form({.score = sum_of_biases(count)}, call_of(128)), TileShapeClass::tma_bias)
        << count;
  EXPECT_NE(form({.score = sum_of_biases(7)}, call_of(256)), TileShapeClass::tma_bias);
}

/// Products of those are no wgmmas, beside which a step could be wide.
TEST(TileFormChoice, OperandsThatTmaDoesNotTake) {
  const Score bias = scores::bias(Tensor::zeros({1, 1, 256, 256}, DType::bf16, Device::cpu()));
  AttentionCall c = call_of(64);
  c.K = Tensor::zeros({1, 2, 256, 72}, DType::bf16, Device::sim()).slice(3, 1, 65);
  EXPECT_NE(form({.score = bias}, c), TileShapeClass::tma_bias);
  c.K = Tensor::zeros({1, 2, 256, 64}, DType::bf16, Device::sim()).flip(2);
  EXPECT_NE(form({.score = bias}, c), TileShapeClass::tma_bias);
}

}  // namespace
}  // namespace tegula
