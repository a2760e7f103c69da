// A layer of experts as one chain through tune(calls), on the simulator.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <string>

#include "autotune/calls/decision.h"
#include "autotune/field.h"
#include "tegula/kernels/moe.h"
#include "tegula/tune.h"
#include "tests/unit/autotune/own_store.h"

namespace tegula::tune_moe_test {
using namespace kernels;
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kExperts = 3, kHidden = 64, kInner = 64;
constexpr int kChosen = 2;

struct Layer {
  explicit Layer(std::int64_t tokens)
      : X(random({tokens, kHidden}, 1)),
        logits(Tensor::normal({tokens, kExperts}, DType::f32, 0, 1, 2, Device::sim())),
        Y(Tensor::full({tokens, kHidden}, 9, DType::bf16, Device::sim())),
        weights{.up = random({kExperts, 2 * kInner, kHidden}, 3),
                .down = random({kExperts, kHidden, kInner}, 4)} {}
  void operator()() const { layer.from_logits(stream, X, logits, weights, Y); }
  ExpertProblem problem(ExpertProduct product) const {
    const bool is_up = product == ExpertProduct::up;
    return {.rows = X.size(0) * kChosen / kExperts,
            .columns = is_up ? kInner : kHidden,
            .k = is_up ? kHidden : kInner,
            .experts = kExperts,
            .product = product,
            .is_gated = is_up,
            .choices = is_up ? kChosen : 0};
  }

  Stream stream{Device::sim()};
  Tensor X, logits, Y;
  MoeWeights weights;
  Moe layer = moe({.router = routers::mixtral(kChosen), .experts = kExperts});

 private:
  static Tensor random(const Dims& shape, std::uint64_t seed) {
    return Tensor::normal(shape, DType::bf16, 0, 1, seed, Device::sim());
  }
};

class TuneMoe : public test::OwnStore {
 protected:
  /// Decisions that one process leaves for the next; its locks end with it.
  struct Kept {
    int decisions = 0;
    bool is_kept[2] = {};
    char configs[2][256] = {};
  };
  TuneMoe()
      : kept_(static_cast<Kept*>(::mmap(nullptr, sizeof(Kept), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    new (kept_) Kept;
  }
  ~TuneMoe() override { ::munmap(kept_, sizeof(Kept)); }
  Kept* kept_;
};

/// Both products, each decided by the time of the whole layer; every candidate gives the same bits.
TEST_F(TuneMoe, TheChainIsTunedAndTheNextProcessUsesIt) {
  in_process([&] {
    const Layer layer(45);
    layer();
    const std::vector<double> wanted = layer.Y.to_doubles();
    layer.Y.fill(9);
    const auto all = tune([&] { layer(); });
    EXPECT_EQ(layer.Y.to_doubles(), wanted) << "the call itself runs, too";
    for (const TunedDecision& d : all) {
      EXPECT_EQ(d.family, "moe_experts");
      EXPECT_GT(d.candidates, 1);
      EXPECT_THAT(d.problem, HasSubstr("rows=30"));
      for (const std::string& why : d.rejected) EXPECT_THAT(why, Not(HasSubstr("wrong")));
      if (kept_->decisions == 2) continue;
      kept_->is_kept[kept_->decisions] = !d.is_low_confidence;
      d.config.copy(kept_->configs[kept_->decisions++], sizeof kept_->configs[0] - 1);
    }
    EXPECT_EQ(all.size(), 2u);
    return true;
  });
  ASSERT_EQ(kept_->decisions, 2);
  in_process([&] {
    const Layer layer(45);
    const ExpertProduct products[] = {ExpertProduct::up, ExpertProduct::down};
    for (int i = 0; i < 2; ++i)
      if (kept_->is_kept[i]) {
        EXPECT_EQ(autotune::text_of(choose_expert_tiles(layer.problem(products[i]), Device::sim())),
                  kept_->configs[i]);
      }
    const auto again = tune([&] { layer(); });
    for (std::size_t i = 0; i < 2; ++i)
      if (kept_->is_kept[i]) {
        EXPECT_TRUE(again[i].was_known);
      }
    return true;
  });
}

/// Layers whose experts have about as many rows share a winner.
TEST_F(TuneMoe, NearRowsUseTheWinner) {
  in_process([&] {
    const Layer tuned(48), near(54), far(400);
    const ExpertProblem problem = tuned.problem(ExpertProduct::down);
    ExpertTileConfig other = choose_expert_tiles(problem, Device::sim());
    other.group_m = 4;
    autotune::WinnerTable::of_process().publish(
        {{"sim", "moe_experts", 1, autotune::text_of(problem), autotune::kSameBits},
         autotune::text_of(other),
         "",
         0.5,
         0.6,
         9,
         "",
         0});
    const auto group_of = [](const Layer& l) {
      return choose_expert_tiles(l.problem(ExpertProduct::down), Device::sim()).group_m;
    };
    EXPECT_EQ(group_of(tuned), 4);
    EXPECT_EQ(group_of(near), 4);
    EXPECT_NE(group_of(far), 4);
    return true;
  });
}

}  // namespace
}  // namespace tegula::tune_moe_test
