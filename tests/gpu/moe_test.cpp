// Layers of experts on the GPU, next to double precision, in graphs, in any order of lengths; twin:
// tests/differential/moe/layer_test.cpp on the simulator.
#include <gtest/gtest.h>

#include "tests/differential/moe/layer_run.h"
#include "tests/gpu/by_back_end.h"
#include "tests/gpu/recorded_graph.h"

namespace tegula::test::experts::moe_test {
namespace {

class MoeOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, MoeOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

LayerCase mixtral_case(int tokens) {
  return {.tokens = tokens, .router = routers::mixtral(), .scheme = mixtral()};
}

TEST_P(MoeOnGpu, AnyNumberOfTokens) {
  for (const int tokens : {0, 1, 3, 127, 1000, 4096})
    expect_layer(mixtral_case(tokens), Device::cuda());
}

TEST_P(MoeOnGpu, ManyExperts) {
  for (const auto& [experts, k] :
       {std::pair{1, 1}, {7, 7}, {64, 5}, {160, 6}, {256, 8}, {384, 8}, {512, 10}})
    expect_layer(
        {.tokens = 200, .experts = experts, .router = routers::qwen3(k), .scheme = qwen3(k)},
        Device::cuda());
}

TEST_P(MoeOnGpu, EightBits) {
  for (const ExpertQuantisation& q :
       {ExpertQuantisation{}, {.scaling = ExpertScaling::tensor}, {.fp32_promotion = true}})
    for (const int tokens : {0, 1, 3, 127, 1000, 4096}) {
      LayerCase c = mixtral_case(tokens);
      c.h = 80, c.i = 48, c.quantisation = q;
      expect_layer(c, Device::cuda());
    }
  for (const auto& [experts, k] : {std::pair{1, 1}, {64, 8}, {256, 8}}) {
    LayerCase c{.tokens = 300, .experts = experts, .router = routers::qwen3(k), .scheme = qwen3(k)};
    c.h = 272, c.i = 144, c.quantisation = ExpertQuantisation{};
    expect_layer(c, Device::cuda());
  }
}

/// The same layer, whose rows per expert change between replays of one graph.
TEST_P(MoeOnGpu, InAGraph) {
  const LayerCase c = mixtral_case(500);
  LayerInputs in(c, Device::cuda());
  const Moe layer = moe(c.options());
  const Tensor Y = Tensor::full({c.tokens, c.h}, NAN, c.dtype, Device::cuda());
  const Stream stream = Stream::create(Device::cuda());
  const auto call = [&] { layer.from_logits(stream, in.X, in.logits, in.weights, Y); };
  call();
  stream.synchronize();
  const RecordedGraph graph(stream, call);
  for (std::uint64_t seed = 5; seed < 8; ++seed) {
    LayerInputs other(c, Device::cuda(), seed);
    in.logits.copy_from(other.logits);
    graph.replay(stream);
    stream.synchronize();
    expect_outputs(c, in, Y);
  }
}

TEST_P(MoeOnGpu, EqualBitsInEachRun) {
  const LayerCase c{.tokens = 700, .experts = 60, .router = routers::qwen3(6), .scheme = qwen3(6)};
  const LayerInputs in(c, Device::cuda());
  const Moe layer = moe(c.options());
  const Stream stream = Stream::create(Device::cuda());
  const auto run = [&] {
    const Tensor Y = Tensor::full({c.tokens, c.h}, NAN, c.dtype, Device::cuda());
    layer.from_logits(stream, in.X, in.logits, in.weights, Y);
    stream.synchronize();
    return Y.to_doubles();
  };
  const Doubles first = run();
  for (int i = 0; i < 50; ++i) ASSERT_EQ(run(), first) << i;
}

}  // namespace
}  // namespace tegula::test::experts::moe_test
