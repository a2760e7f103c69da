// tune(calls) on the simulator: a callable whose decisions go through a space, from the candidates
// to what the next process and the next shape find.
#include "tegula/tune.h"

#include <gmock/gmock.h>

#include "autotune/calls/decision.h"
#include "tegula/call_plan.h"
#include "tegula/tegula.h"
#include "tests/unit/autotune/own_store.h"

namespace tegula::tune_calls_test {

/// Mode 1 gives wrong results, 2 other bits.
struct AddingConfig {
  int block = 32, laps = test::kManyTurns, mode = 0;

  template <class Self, class Visit>
  static void each_field(Self& c, const Visit& visit) {
    visit("block", c.block);
    visit("laps", c.laps);
    visit("mode", c.mode);
  }
  bool operator==(const AddingConfig&) const = default;
};
struct AddingProblem {
  std::int64_t n = 0;
  int step = 0;  ///< of the call

  template <class Self, class Visit>
  static void each_field(Self& p, const Visit& visit) {
    visit("n", p.n);
    visit("step", p.step);
  }
  bool operator==(const AddingProblem&) const = default;
};

namespace {

using autotune::Axis;
using autotune::Limits;
using autotune::Rule;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using P = AddingProblem;
using C = AddingConfig;

constexpr int kBlocks[] = {32, 64}, kLaps[] = {test::kManyTurns, 2}, kModes[] = {0, 1, 2};
constexpr Axis<C> kAxes[] = {{"block", [](C& c, int v) { c.block = v; }, kBlocks},
                             {"laps", [](C& c, int v) { c.laps = v; }, kLaps},
                             {"mode", [](C& c, int v) { c.mode = v; }, kModes}};
/// The model takes many laps and mode 0; a block of 64 needs as many elements.
constexpr Rule<P, C> kRules[] = {
    {"block", "a block has as many elements", autotune::Severity::refused, 0,
     [](const P& p, const C& c, const Limits&) { return c.block > p.n; }},
    {"laps", "many laps are well", autotune::Severity::dominated, 1,
     [](const P&, const C& c, const Limits&) { return c.laps != test::kManyTurns; }},
    {"mode", "the others are for tuners", autotune::Severity::dominated, 2,
     [](const P&, const C& c, const Limits&) { return c.mode != 0; }}};

/// The estimate knows blocks alone, so that it trusts winners of few laps.
const autotune::Space<P, C>& adding_space() {
  static const autotune::Space<P, C> space{
      kAxes,
      kRules,
      [](const P&, const Limits&) { return C{}; },
      [](C c, const P&, const Limits&) { return c; },
      [](const P&, const C& c, const DeviceProfile&) { return c.block == 32 ? 100.0 : 102.0; },
      [](const P&, const C& c, const Limits&) -> std::uint64_t { return c.mode == 2; }};
  return space;
}

/// y = x in as many steps as it is made with, each a launch with a decision of its own.
struct Adding {
  explicit Adding(int count) : steps(count) {}

  void operator()(const Stream& stream, const Tensor& x, const Tensor& y) const {
    plans.call(stream, tensor_args(x, y), PlanOptions{steps}, [&](PlanBuilder& plan) {
      configs.clear();
      for (int i = 0; i < steps; ++i) {
        const C c = autotune::decide({"adding"}, P{y.size(0), i}, adding_space(), plan.device());
        configs.push_back(c);
        const auto made = kernel_.with({{"BLOCK", c.block}, {"LAPS", c.laps}, {"MODE", c.mode}});
        plan.launch(made, plan.argument(i == 0 ? 0 : 1), plan.argument(1));
      }
    });
  }

  int steps;
  mutable std::vector<C> configs;  ///< of the plan built last
  Kernel<In<f32, 1>, Out<f32, 1>> kernel_ = kernel("adding", [](In<f32, 1> x, Out<f32, 1> y) {
                                              const int block = tune("BLOCK", {32, 64}),
                                                        laps = tune("LAPS", {test::kManyTurns, 2}),
                                                        mode = tune("MODE", {0, 1, 2});
                                              for (auto i : grid(y, block)) {
                                                Tile v = x(i);
                                                for (int t = 0; t < laps; ++t)
                                                  v = (v + 1.0f) - 1.0f;
                                                if (mode == 1) v = v + 100.0f;
                                                if (mode == 2) v = v + 1e-6f;
                                                y(i) = v;
                                              }
                                            }).may_alias();
  CallPlans plans;
};

struct Call {
  explicit Call(std::int64_t n = 4096)
      : x(Tensor::integers({n}, DType::f32, 1, 9, 1, Device::sim())),
        y(Tensor::full({n}, 5, DType::f32, Device::sim())) {}
  Stream stream{Device::sim()};
  Tensor x, y;
};

using TuneCalls = test::OwnStore;

TEST_F(TuneCalls, FindTheFastestAndKeepItForTheNextProcess) {
  const Call c;
  in_process([&] {
    const Adding add(1);
    add(c.stream, c.x, c.y);
    EXPECT_EQ(add.configs[0].laps, test::kManyTurns) << "the model's";
    const auto all = tune([&] { add(c.stream, c.x, c.y); });
    EXPECT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].family, "adding");
    EXPECT_EQ(all[0].problem, "n=4096 step=0");
    EXPECT_EQ(all[0].by_default, "block=32 laps=" + std::to_string(test::kManyTurns) + " mode=0");
    EXPECT_THAT(all[0].config, HasSubstr("laps=2 mode=0"));
    EXPECT_TRUE(all[0].is_replaced);
    EXPECT_LT(all[0].ratio, 0.9);
    EXPECT_GT(all[0].us, 0);
    EXPECT_THAT(all[0].rejected, Contains(HasSubstr("laps=2 mode=1: wrong: argument 1")));
    EXPECT_THAT(all[0].rejected, Not(Contains(HasSubstr("mode=2")))) << "never asked to run";
    EXPECT_EQ(add.configs[0].laps, 2) << "the call that was tuned uses its winner";
    EXPECT_EQ(c.y.to_doubles(), c.x.to_doubles());
    return true;
  });
  in_process([&] {
    const Adding add(1);
    add(c.stream, c.x, c.y);
    EXPECT_EQ(add.configs[0].laps, 2);
    EXPECT_EQ(add.configs[0].mode, 0);
    const auto all = tune([&] { add(c.stream, c.x, c.y); });
    EXPECT_TRUE(all[0].was_known);
    EXPECT_LT(all[0].ratio, 0.9);
    TuneOptions again;
    again.again = true;
    EXPECT_FALSE(tune([&] { add(c.stream, c.x, c.y); }, again)[0].was_known);
    EXPECT_EQ(add.configs[0].laps, 2);
    return true;
  });
}

TEST_F(TuneCalls, NearShapesUseTheWinnerThatTheModelTrusts) {
  const Call c, near(3072), far(1024);
  in_process([&] {
    const Adding add(1);
    const auto all = tune([&] { add(c.stream, c.x, c.y); });
    EXPECT_TRUE(all[0].is_replaced);
    add(near.stream, near.x, near.y);
    EXPECT_EQ(add.configs[0].laps, 2);
    add(far.stream, far.x, far.y);
    EXPECT_EQ(add.configs[0].laps, test::kManyTurns) << "more than half an octave away";
    return true;
  });
}

TEST_F(TuneCalls, NearWinnersThatAreIllegalHereAreNotUsed) {
  const Call c(48);
  const auto publish = [](std::int64_t n, const char* config) {
    autotune::WinnerTable::of_process().publish(
        {{"sim", "adding", 1, autotune::text_of(P{n, 0}), autotune::kSameBits},
         config,
         "",
         0.5,
         0.6,
         9,
         "",
         0});
  };
  in_process([&] {
    publish(64, "block=64 laps=2 mode=0");  // refused here
    publish(50, "block=32 laps=2 mode=2");  // other bits
    publish(52, "block=32 laps=2");         // an older release's
    const Adding add(1);
    add(c.stream, c.x, c.y);
    EXPECT_EQ(add.configs[0], C{});
    publish(60, "block=32 laps=2 mode=0");
    const Adding again(1);
    again(c.stream, c.x, c.y);
    EXPECT_EQ(again.configs[0].laps, 2);
    return true;
  });
}

TEST_F(TuneCalls, BitsMayChangeInTheRequestingProcess) {
  const Call c;
  in_process([&] {
    const Adding add(1);
    TuneOptions options;
    options.may_change_bits = true;
    const auto all = tune([&] { add(c.stream, c.x, c.y); }, options);
    EXPECT_THAT(all[0].rejected, Not(Contains(HasSubstr("mode=2: wrong"))));
    EXPECT_EQ(add.configs[0].laps, 2);
    return true;
  });
  in_process([&] {
    const Adding add(1);
    add(c.stream, c.x, c.y);
    EXPECT_EQ(add.configs[0].laps, test::kManyTurns) << "a call promises the bits";
    return true;
  });
}

TEST_F(TuneCalls, EachDecisionOfAChainIsTunedByTheWholeCall) {
  const Call c;
  in_process([&] {
    const Adding add(3);
    const auto all = tune([&] { add(c.stream, c.x, c.y); });
    EXPECT_EQ(all.size(), 3u);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_GT(all[i].candidates, 1) << i;
      EXPECT_EQ(autotune::text_of(add.configs[i]), all[i].config);
      EXPECT_EQ(add.configs[i].laps,
                all[i].is_replaced ? 2 : test::kManyTurns);  // a busy host may keep it
    }
    return true;
  });
}

TEST_F(TuneCalls, TheFirstCallTunesIfTheEnvironmentRequestsIt) {
  const Call c;
  in_process(
      [&] {
        const Adding add(1);
        add(c.stream, c.x, c.y);
        EXPECT_EQ(add.configs[0].laps, 2);
        EXPECT_EQ(c.y.to_doubles(), c.x.to_doubles());
        return true;
      },
      "quick");
}

TEST(CandidateLists, HaveTheReferenceTheModelsAndOthers) {
  const P p{4096, 0};
  const auto list = [&](const autotune::ListOptions& options) {
    return autotune::list_candidates(adding_space(), p, host_profile(), C{}, options);
  };
  const autotune::CandidateList same_bits = list({8, false, ""});
  EXPECT_EQ(same_bits.texts[0], autotune::text_of(C{}));
  EXPECT_EQ(same_bits.texts[1], "block=64 laps=" + std::to_string(test::kManyTurns) + " mode=0")
      << "the model's second";
  EXPECT_THAT(same_bits.texts, Not(Contains(HasSubstr("mode=2"))));
  EXPECT_EQ(same_bits.texts.size(), 8u);
  EXPECT_EQ(list({8, true, ""}).texts.size(), 12u) << "steps from the best fill it up";
  EXPECT_EQ(list({8, false, "block=64 laps=2 mode=0"}).texts[1], "block=64 laps=2 mode=0");
  for (const int j : same_bits.neighbours[0]) EXPECT_NE(j, 0);
  EXPECT_THAT(same_bits.neighbours[0], Contains(1));
}

}  // namespace
}  // namespace tegula::tune_calls_test
