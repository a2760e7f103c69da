// Layers of experts in 8 bits against double precision on the quantised values, on every device
// that is here.
#include <gtest/gtest.h>

#include <string>

#include "tests/differential/devices.h"
#include "tests/differential/moe/layer_run.h"

namespace tegula::test::experts {
namespace {

constexpr ExpertQuantisation kByRow{}, kByTensor{.scaling = ExpertScaling::tensor};

class QuantisedMoe : public testing::TestWithParam<Device> {
 protected:
  /// With either policy.
  void expect(LayerCase c) const {
    for (const ExpertQuantisation& q : {kByRow, kByTensor}) {
      SCOPED_TRACE(q.scaling == ExpertScaling::row ? "by row" : "by tensor");
      c.quantisation = q;
      expect_layer(c, GetParam());
    }
  }
  /// Two experts a token, extents that are no multiple of a tile's.
  static LayerCase small(int tokens) {
    return {.tokens = tokens, .h = 80, .i = 48, .router = routers::mixtral(), .scheme = mixtral()};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, QuantisedMoe, testing::ValuesIn(devices()), device_name);

TEST_P(QuantisedMoe, AnyNumberOfTokens) {
  for (const int tokens : {0, 1, 3, 127}) expect(small(tokens));
}

TEST_P(QuantisedMoe, AnyNumberOfExperts) {
  for (const auto& [experts, k] : {std::pair{1, 1}, {7, 7}, {64, 8}}) {  // most of the 64 are empty
    LayerCase c = small(3);
    c.experts = experts, c.router = routers::qwen3(k), c.scheme = qwen3(k);
    expect(c);
  }
}

TEST_P(QuantisedMoe, HalfPrecisionOfTheOtherKind) {
  LayerCase c = small(20);
  c.dtype = DType::f16;
  expect(c);
}

TEST_P(QuantisedMoe, BiasesAndInterleavedOutputs) {
  LayerCase c = small(20);
  c.activation = clamped_swiglu(1), c.host_activation = host_clamped_swiglu(1);
  c.has_biases = c.is_interleaved = true;
  expect(c);
}

TEST_P(QuantisedMoe, WithoutAGate) {
  LayerCase c = small(20);
  c.activation = relu_squared(), c.host_activation = host_relu_squared();
  expect(c);
}

TEST_P(QuantisedMoe, SharedExpertsAndScaledInputs) {
  LayerCase c = small(21);
  c.shared = 2;
  expect(c);
  c.shared = 0, c.router = routers::llama4(), c.scheme = llama4(), c.scales_inputs = true;
  expect(c);
}

TEST_P(QuantisedMoe, Capacity) {
  for (const int rows : {0, 4}) {
    LayerCase c = small(30);
    c.capacity = ExpertCapacity{.rows = rows};
    expect(c);
  }
}

TEST_P(QuantisedMoe, ExpertsChoose) {
  LayerCase c = small(30);
  c.experts = 20, c.expert_choice = ExpertChoice{2};  // more than choices that are unrolled
  expect(c);
}

TEST_P(QuantisedMoe, TilesOfEveryKind) {
  for (const ExpertTileConfig& tiles : {ExpertTileConfig{.bm = 128, .bn = 128, .bk = 128},
                                        {.bm = 64, .bn = 64},
                                        {.bm = 16, .bn = 64, .bk = 128, .swap_ab = true},
                                        {.bm = 64, .bn = 128, .bk = 128, .swap_ab = true}}) {
    LayerCase c = small(70);
    c.experts = 3, c.tiles = {tiles, tiles};
    c.quantisation = kByRow;
    expect_layer(c, GetParam());
  }
}

TEST_P(QuantisedMoe, PromotedAccumulators) {
  for (const int tokens : {5, 100}) {
    LayerCase c = small(tokens);
    c.h = 400, c.quantisation = ExpertQuantisation{.fp32_promotion = true};
    expect_layer(c, GetParam());
  }
}

/// A token of zeros has a scale of 1, one of NaN keeps it to itself.
TEST_P(QuantisedMoe, RowsOfZerosAndNan) {
  LayerCase c = small(4);
  c.quantisation = kByRow;
  const LayerInputs in(c, GetParam());
  in.X.slice(0, 1, 2).copy_from(Tensor::zeros({1, c.h}, c.dtype, GetParam()));
  in.X.slice(0, 2, 3).copy_from(Tensor::full({1, c.h}, NAN, c.dtype, GetParam()));
  const Tensor Y = Tensor::full({c.tokens, c.h}, 9, c.dtype, GetParam());
  moe(c.options()).from_logits(Stream(GetParam()), in.X, in.logits, in.weights, Y);
  const Row y = Y.to_doubles();
  for (std::size_t n = 0; n < y.size(); ++n) {
    const std::size_t token = n / static_cast<std::size_t>(c.h);
    ASSERT_EQ(std::isnan(y[n]), token == 2) << n;
    if (token == 1) {
      ASSERT_EQ(y[n], 0) << n;
    }
  }
}

TEST_P(QuantisedMoe, ByTmaAndWgmmaOnHopper) {
  if (GetParam().kind != DeviceKind::sim) GTEST_SKIP() << "the plan is that of sim";
  for (const ExpertQuantisation& q : {kByRow, kByTensor}) {
    const LayerCase c{.tokens = 160,
                      .experts = 2,
                      .h = 128,
                      .i = 128,
                      .router = routers::mixtral(1),
                      .scheme = mixtral(1),
                      .quantisation = q};
    const LayerInputs in(c, GetParam());
    const Moe layer = moe(c.options());
    layer.from_logits(Stream(GetParam()), in.X, in.logits, in.weights,
                      Tensor::empty({c.tokens, c.h}, c.dtype, GetParam()));
    const std::string report = layer.explain();
    std::size_t count = 0;
    for (std::size_t at = 0; (at = report.find("dot by wgmma", at)) != std::string::npos; ++at)
      ++count;
    EXPECT_EQ(count, 3u) << report;  // gate, up, down
  }
}

}  // namespace
}  // namespace tegula::test::experts
