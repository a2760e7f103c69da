// Kernels of layers of experts, assembled: products on wgmma, and none that spills.
#include "kernels/moe/layer_kernels.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::moe_test {
using namespace kernels;
namespace {

class AssembledMoe : public Assembled {};

/// Forward and backward of 400 tokens by 2 experts, on the host.
void train() {
  constexpr int kTokens = 400, kExperts = 2, kHidden = 256, kInner = 128;
  const auto like = [](Dims shape, DType dtype) {
    return Tensor::zeros(shape, dtype, Device::cpu());
  };
  const auto bf = [&](Dims shape) { return like(shape, DType::bf16); };
  const Moe layer = moe({.router = routers::mixtral(1), .experts = kExperts});
  const MoeWeights w{.up = bf({kExperts, 2 * kInner, kHidden}),
                     .down = bf({kExperts, kHidden, kInner})};
  const Tensor X = bf({kTokens, kHidden}), Y = bf({kTokens, kHidden}),
               logits = like({kTokens, kExperts}, DType::f32);
  const MoeSaved saved = layer.make_saved(X, w);
  layer.from_logits(Stream(Device::cpu()), X, logits, w, Y, saved);
  layer.backward(Stream(Device::cpu()), X, logits, w, saved, Y,
                 {.X = bf({kTokens, kHidden}), .up = bf(w.up.shape()), .down = bf(w.down.shape())});
}

TEST_F(AssembledMoe, ProductsOfTrainingAreWgmma) {
  const std::vector<std::string> names{"moe_up", "moe_down", "moe_row_gradient",
                                       "moe_weight_gradient"};
  for (const ir::Kernel& tile : all_traced(names, train)) {
    SCOPED_TRACE(tile.info.name);
    for (const runtime::Backend backend : here()) expect_clean(tile, "sm_90a", true, backend);
  }
}

/// Forward of 40 tokens by 2 experts with these tiles, for training or not.
void multiply(const MoeTiles& tiles, bool is_training) {
  const auto like = [](Dims shape, DType dtype) {
    return Tensor::zeros(shape, dtype, Device::cpu());
  };
  const Tensor X = like({40, 256}, DType::bf16), Y = like({40, 256}, DType::bf16);
  const MoeWeights w{.up = like({2, 256, 256}, DType::bf16),
                     .down = like({2, 256, 128}, DType::bf16)};
  const Moe layer = moe({.router = routers::mixtral(1), .experts = 2, .tiles = tiles});
  layer.from_logits(Stream(Device::cpu()), X, like({40, 2}, DType::f32), w, Y,
                    is_training ? layer.make_saved(X, w) : MoeSaved{});
}

/// Tiles whose accumulators are as large as a choice takes them, and of three warpgroups.
TEST_F(AssembledMoe, TilesOfEveryHeightDoNotSpill) {
  const auto with_swap_ab = [](int bm, int bn) {
    return ExpertTileConfig{.bm = bm, .bn = bn, .swap_ab = true};
  };
  using Tiles = ExpertTileConfig;
  for (const MoeTiles& tiles :
       {MoeTiles{with_swap_ab(160, 128), with_swap_ab(256, 128)},
        MoeTiles{Tiles{.bm = 192, .bn = 64}, Tiles{.bm = 192, .bn = 128}},
        MoeTiles{Tiles{.multicast = true}, Tiles{.bn = 256, .multicast = true}},
        MoeTiles{Tiles{.bm = 144, .swap_ab = true, .multicast = true},
                 Tiles{.bm = 144, .swap_ab = true, .multicast = true}}}) {
    const auto call = [&] { multiply(tiles, false); };
    for (const ir::Kernel& tile : all_traced({"moe_up", "moe_down"}, call)) {
      SCOPED_TRACE(testing::Message() << tile.info.name << " " << tiles.up->bm);
      for (const runtime::Backend backend : here()) expect_clean(tile, "sm_90a", true, backend);
    }
  }
  const ir::Kernel up = traced("moe_up", [&] { multiply({.up = with_swap_ab(160, 128)}, true); });
  for (const runtime::Backend backend : here()) expect_clean(up, "sm_90a", true, backend);
}

/// Rows of tokens that the up product copies itself, in clusters that multicast the weights, too.
TEST_F(AssembledMoe, GatheredRowsGoToWgmma) {
  for (const ExpertTileConfig& c :
       {ExpertTileConfig{.gathers = true},
        {.gathers = true, .multicast = true},
        {.bm = 144, .swap_ab = true, .gathers = true},
        {.bm = 144, .swap_ab = true, .gathers = true, .multicast = true}}) {
    SCOPED_TRACE(testing::Message() << c.bm << " " << c.multicast);
    const ir::Kernel up =
        traced("moe_up", [&] { multiply({.up = c}, !c.swap_ab && !c.multicast); });
    for (const runtime::Backend backend : here()) {
      const ir::Plan plan = expect_clean(up, "sm_90a", true, backend);
      EXPECT_EQ(plan.multicast, c.multicast) << plan.str();
      EXPECT_EQ(plan.dynamic_scheduler, c.multicast) << plan.str();
    }
  }
}

/// Forward of 400 tokens by 2 experts of 8 bits.
void multiply_8_bits(ExpertScaling scaling) {
  const auto like = [](Dims shape, DType dtype) {
    return Tensor::zeros(shape, dtype, Device::cpu());
  };
  const auto of_scales = [&](Dims of_rows, Dims of_tensors) {
    return like(scaling == ExpertScaling::row ? of_rows : of_tensors, DType::f32);
  };
  MoeWeights w{.up = like({2, 256, 256}, DType::f8e4m3),
               .down = like({2, 256, 128}, DType::f8e4m3)};
  w.scales = {.up = of_scales({2, 256}, {2}), .down = of_scales({2, 256}, {2})};
  if (scaling == ExpertScaling::tensor)
    w.scales.input = like({1}, DType::f32), w.scales.hidden = like({1}, DType::f32);
  const Tensor X = like({400, 256}, DType::bf16), Y = like({400, 256}, DType::bf16);
  moe({.router = routers::mixtral(1),
       .experts = 2,
       .quantisation = ExpertQuantisation{.scaling = scaling}})
      .from_logits(Stream(Device::cpu()), X, like({400, 2}, DType::f32), w, Y);
}

TEST_F(AssembledMoe, ProductsOf8BitsAreWgmma) {
  std::vector<ir::Kernel> tiles =
      all_traced({"moe_up_f8", "moe_down_f8"}, [] { multiply_8_bits(ExpertScaling::row); });
  tiles.push_back(traced("moe_up_f8_f8", [] { multiply_8_bits(ExpertScaling::tensor); }));
  for (const ir::Kernel& tile : tiles) {
    SCOPED_TRACE(tile.info.name);
    for (const runtime::Backend backend : here()) expect_clean(tile, "sm_90a", true, backend);
  }
}

/// Registers of a tile's logits, twice: as keys and as words of a network.
TEST_F(AssembledMoe, RoutingDoesNotSpill) {
  for (const auto& [experts, k] : {std::pair{8, 2}, {128, 8}, {256, 8}, {512, 10}})
    for (const int tokens : {20, 50}) {
      SCOPED_TRACE(testing::Message() << experts << " experts, " << tokens << " tokens");
      const auto route = [&] {
        const Moe layer = moe({.router = routers::qwen3(k), .experts = experts});
        layer.route(Stream(Device::cpu()),
                    Tensor::zeros({tokens, experts}, DType::f32, Device::cpu()), {},
                    layer.make_routing(tokens, Device::cpu()));
      };
      const ir::Kernel tile = traced("moe_route", route);
      for (const runtime::Backend backend : here()) expect_clean(tile, "sm_90a", false, backend);
    }
}

}  // namespace
}  // namespace tegula::test::moe_test
