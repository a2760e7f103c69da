// Layers of experts in 8 bits against double precision on the quantised values, on every available
// device.
#include <gtest/gtest.h>

#include <string>

#include "tests/differential/devices.h"
#include "tests/differential/moe/layer_run.h"
#include "tests/remark_count.h"

namespace tegula::test::experts::quantised_layer_test {
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
  /// Two experts per token, extents that are not multiples of a tile's.
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

/// Which errors the bounds take, on the host: activations that round otherwise because inputs or
/// accumulators are off by 2^-8, but no wrong scale and no lost block.
class BoundsOfEightBits : public testing::TestWithParam<ExpertQuantisation> {
 protected:
  static constexpr int kTokens = 40, kH = 272, kI = 144;

  BoundsOfEightBits() { case_.quantisation = GetParam(); }

  /// Outputs of tensors modified by `change` are within the bounds of the correct ones.
  template <class Change>
  testing::AssertionResult hold(const Change& change) {
    const LayerInputs in(case_, Device::cpu());
    const Routed routed = kept_choices(case_, in);
    LayerTensors p = reference_tensors(case_, in);
    const Expected want = expected(case_, p, routed);
    change(p);
    return want.bounds.hold(expected(case_, p, routed).outputs, want.outputs);
  }
  /// Every `step`-th value of a range times `factor`.
  static void scale(Doubles& values, int first, int count, double factor, int step = 1) {
    for (int i = 0; i < count; ++i) values[static_cast<std::size_t>(first + i * step)] *= factor;
  }

  LayerCase case_{.tokens = kTokens,
                  .experts = 1,
                  .h = kH,
                  .i = kI,
                  .router = routers::qwen3(1),
                  .scheme = qwen3(1)};
};
INSTANTIATE_TEST_SUITE_P(Scalings, BoundsOfEightBits, testing::Values(kByRow, kByTensor),
                         [](const auto& info) {
                           return info.param.scaling == ExpertScaling::row ? "by_row" : "by_tensor";
                         });

TEST_P(BoundsOfEightBits, TakeRoundingToTheOtherNeighbour) {
  for (const std::uint64_t seed : {1, 2}) {
    const Doubles noise =
        Tensor::normal({kTokens * kH}, DType::f32, 0, 1.0 / 256, seed, Device::cpu()).to_doubles();
    EXPECT_TRUE(hold([&](LayerTensors& p) {
      for (std::size_t i = 0; i < p.x.size(); ++i) p.x[i] *= 1 + noise[i];
    }));
  }
}

TEST_P(BoundsOfEightBits, CatchPlantedFaults) {
  constexpr int kLost = 16, kToken = 7, kOutput = 5;
  // A scale that is another token's, another expert output's, another activation's.
  EXPECT_FALSE(hold([](LayerTensors& p) { scale(p.x, kToken * kH, kH, 1.25); }));
  EXPECT_FALSE(hold([](LayerTensors& p) { scale(p.down, kOutput * kI, kI, 1.25); }));
  EXPECT_FALSE(hold([](LayerTensors& p) { scale(p.up, kOutput * kH, kH, 2); }));
  // Blocks along k of all tokens, and of one.
  EXPECT_FALSE(hold([](LayerTensors& p) {
    for (int t = 0; t < kTokens; ++t) scale(p.x, t * kH + kH - kLost, kLost, 0);
  }));
  EXPECT_FALSE(hold([](LayerTensors& p) { scale(p.x, kToken * kH, kLost, 0); }));
  EXPECT_FALSE(hold([](LayerTensors& p) {
    for (int c = 0; c < kH; ++c) scale(p.down, c * kI + kI - kLost, kLost, 0);
  }));
  // Nothing at all, and NaN.
  EXPECT_FALSE(hold([](LayerTensors& p) { scale(p.x, 0, kTokens * kH, 0); }));
  EXPECT_FALSE(hold([](LayerTensors& p) { p.down[3] = NAN; }));
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
  const Doubles y = Y.to_doubles();
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
    EXPECT_EQ(remark_count(report, "dot by wgmma"), 3) << report;  // gate, up, down
  }
}

}  // namespace
}  // namespace tegula::test::experts::quantised_layer_test
