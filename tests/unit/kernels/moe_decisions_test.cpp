// A layer of experts is a chain: each of its GEMMs has a decision of its own, which a tuner makes.
#include <gmock/gmock.h>

#include "autotune/calls/decision.h"
#include "support/generation.h"
#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"

namespace tegula::moe_decisions_test {
using namespace kernels;
namespace {

using ::testing::HasSubstr;

struct Layer {
  static constexpr int kTokens = 20, kExperts = 4, kHidden = 64, kInner = 32;
  Layer() {
    const auto normal = [](const Dims& shape, std::uint64_t seed) {
      return Tensor::normal(shape, DType::bf16, 0, 0.5, seed, Device::sim());
    };
    X = normal({kTokens, kHidden}, 1), Y = normal({kTokens, kHidden}, 2);
    weights.router = normal({kExperts, kHidden}, 3);
    weights.up = normal({kExperts, 2 * kInner, kHidden}, 4);
    weights.down = normal({kExperts, kHidden, kInner}, 5);
  }
  /// The results, with these configurations; `noted` gets the decisions.
  std::vector<double> run(const autotune::DecisionScope::Given& given,
                          std::vector<autotune::Decision>& noted) const {
    begin_generation();  // no plan of other configurations
    const autotune::DecisionScope scope(given);
    layer(Stream(Device::sim()), X, weights, Y);
    noted = scope.noted();
    return Y.to_doubles();
  }

  Moe layer = moe({.router = routers::mixtral(), .experts = kExperts});
  Tensor X, Y;
  MoeWeights weights;
};

TEST(MoeDecisions, EachGemmHasOne) {
  const Layer l;
  std::vector<autotune::Decision> noted, again;
  const std::vector<double> before = l.run({}, noted);
  ASSERT_EQ(noted.size(), 3u);
  EXPECT_EQ(noted[0].family, "moe_logits");
  EXPECT_EQ(noted[1].family, "moe_experts");
  EXPECT_THAT(noted[1].problem, HasSubstr("product=up"));
  EXPECT_THAT(noted[1].problem, HasSubstr("is_gated=1"));
  EXPECT_THAT(noted[2].problem, HasSubstr("product=down"));
  autotune::DecisionScope::Given given;
  const ExpertTileConfig up{.bm = 32, .bn = 64, .swap_ab = true}, down{.bm = 64, .bn = 64};
  for (const auto& [decision, config] : {std::pair(&noted[1], up), std::pair(&noted[2], down)}) {
    EXPECT_NE(decision->by_default, autotune::text_of(config));
    EXPECT_TRUE(decision->is_usable(autotune::text_of(config), false));
    given[decision->key()] = autotune::text_of(config);
  }
  EXPECT_EQ(l.run(given, again), before) << "the same sums in other tiles";
  EXPECT_EQ(again.size(), 3u);
  begin_generation();
}

}  // namespace
}  // namespace tegula::moe_decisions_test
