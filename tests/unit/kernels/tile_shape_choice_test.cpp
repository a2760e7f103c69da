// The shape of attention's tiles where a score reads tensors at pairs.
#include <gtest/gtest.h>

#include "kernels/attention/heuristics.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"

namespace tegula::tile_shape_choice_test {
using namespace kernels;
namespace {

AttentionCall call_of(std::int64_t dim) {
  AttentionCall c;
  c.Q = c.K = c.V = c.O = Tensor::zeros({1, 2, 256, dim}, DType::bf16, Device::sim());
  return c;
}
/// Whether the tiles are those for a score whose tensors TMA loads.
bool has_boxes(const AttentionSpec& spec, const AttentionCall& call,
               const AttentionSchedule& schedule = {}) {
  const AttentionHeuristics facts(spec, schedule);
  const TileRequirements needs = facts.needs(call.Q.size(3), call.V.size(3), false);
  const AttentionTileShape tiles = facts.config(call).tiles();
  EXPECT_TRUE(tiles == tma_bias_tiles(needs) || tiles == attention_tiles(needs));
  return tiles != attention_tiles(needs);
}
Score sum_of_biases(int count) {
  const Tensor all = Tensor::zeros({count, 256, 256}, DType::f32, Device::cpu());
  return [=](Tile s, Tile, Tile, Tile q, Tile kv) {
    for (int n = 0; n < count; ++n) s = s + view<f32, 3>(all)(n, q, kv);
    return s;
  };
}

TEST(TileShapeChoice, TensorsAtPairs) {
  const Score bias = scores::bias(Tensor::zeros({1, 1, 256, 256}, DType::bf16, Device::cpu()));
  EXPECT_TRUE(has_boxes({.score = bias}, call_of(128)));
  EXPECT_FALSE(has_boxes({.score = bias}, call_of(128), {.tma_aux_loads = false}));
  EXPECT_FALSE(has_boxes({.score = bias, .weighting = AttentionNormalization::stick_breaking},
                         call_of(128)));
  EXPECT_TRUE(has_boxes({.score = sum_of_biases(1)}, call_of(128)));
  // Next to so many there is room for fewer keys than where threads load them, or for none.
  for (const int count : {4, 12})
    EXPECT_FALSE(has_boxes({.score = sum_of_biases(count)}, call_of(128))) << count;
  EXPECT_FALSE(has_boxes({.score = sum_of_biases(7)}, call_of(256)));
}

/// Products of those are not wgmmas, next to which a step could be wide.
TEST(TileShapeChoice, OperandsThatTmaDoesNotTake) {
  const Score bias = scores::bias(Tensor::zeros({1, 1, 256, 256}, DType::bf16, Device::cpu()));
  AttentionCall c = call_of(64);
  c.K = Tensor::zeros({1, 2, 256, 72}, DType::bf16, Device::sim()).slice(3, 1, 65);
  EXPECT_FALSE(has_boxes({.score = bias}, c));
  c.K = Tensor::zeros({1, 2, 256, 64}, DType::bf16, Device::sim()).flip(2);
  EXPECT_FALSE(has_boxes({.score = bias}, c));
}

}  // namespace
}  // namespace tegula::tile_shape_choice_test
