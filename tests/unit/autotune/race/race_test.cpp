#include "autotune/race/race.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <csignal>

#include "autotune/race/race_log.h"
#include "tegula/error.h"
#include "tests/unit/autotune/race/simulated_measure.h"
#include "tests/unit/autotune/store/store_fixture.h"

namespace tegula::autotune::race_test {
namespace {

using ::testing::HasSubstr;

std::vector<SimulatedCandidate> with_times(const std::vector<double>& ns) {
  std::vector<SimulatedCandidate> out;
  for (const double t : ns) out.push_back({t});
  return out;
}

/// 40 candidates, the reference at 1000 ns, the best at 700.
std::vector<SimulatedCandidate> field() {
  std::vector<double> ns{1000};
  for (int i = 1; i < 40; ++i) ns.push_back(700 + 400.0 * ((i * 17) % 39) / 39);
  return with_times(ns);
}

RaceOptions options_for(std::size_t candidates, Budget budget = Budget::full) {
  RaceOptions o;
  o.limits = limits_of(budget);
  for (std::size_t i = 0; i < candidates; ++i) o.texts.push_back("c" + std::to_string(100 + i));
  return o;
}

TEST(Statistics, EstimatesAreNotMovedByWildSamples) {
  std::vector<double> samples(20, 1.0);
  samples[3] = 50;
  const Estimate e = hodges_lehmann(samples);
  EXPECT_DOUBLE_EQ(e.value, 1.0);
  EXPECT_DOUBLE_EQ(e.low, 1.0);
  EXPECT_DOUBLE_EQ(e.standard_error, 0);
  EXPECT_EQ(e.samples, 20);
  EXPECT_DOUBLE_EQ(hodges_lehmann(std::vector{2.0}).value, 2.0);
  EXPECT_DOUBLE_EQ(median({3, 1, 2, 10}), 2.5);
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
}

/// The interval holds the true value in about 95 % of all tries.
TEST(Statistics, IntervalsHoldTheTruth) {
  std::mt19937 random(7);
  std::normal_distribution<> normal(1.0, 0.02);
  int inside = 0;
  for (int t = 0; t < 400; ++t) {
    std::vector<double> samples(30);
    for (double& s : samples) s = normal(random);
    const Estimate e = hodges_lehmann(samples);
    inside += e.low <= 1.0 && 1.0 <= e.high;
  }
  EXPECT_GE(inside, 366);
  EXPECT_LE(inside, 394);
}

TEST(Race, SixTuningsAgree) {
  for (const Budget budget : {Budget::quick, Budget::full}) {
    const std::size_t count = budget == Budget::quick ? 24 : 40;
    auto candidates = field();
    candidates.resize(count);
    double best = 1e9;
    for (const auto& c : candidates) best = std::min(best, c.ns);
    for (unsigned seed = 1; seed <= 6; ++seed) {
      SimulatedMeasure measure(candidates, seed);
      const RaceResult r = race(measure, options_for(count, budget));
      EXPECT_TRUE(r.is_replaced);
      EXPECT_LT(measure.of(r.winner).ns, best * 1.015) << "seed " << seed;
      EXPECT_NEAR(r.ratio.value, measure.of(r.winner).ns / 1000, 0.01);
      EXPECT_LE(r.ratio.low, r.ratio.value);
      EXPECT_EQ(r.code, measure.of(r.winner).prepared.code);
      EXPECT_TRUE(measure.was_tried);
      EXPECT_TRUE(measure.was_checked);
    }
  }
}

TEST(Race, NoiseAloneReplacesNothing) {
  int replaced = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    SimulatedMeasure measure(with_times(std::vector<double>(24, 1000.0)), seed, 0.02);
    RaceOptions o = options_for(24);
    o.incumbent = seed % 2 == 0 ? 0 : 5;
    const RaceResult r = race(measure, o);
    replaced += r.is_replaced;
    EXPECT_EQ(r.winner, o.incumbent);
  }
  EXPECT_EQ(replaced, 0);
}

TEST(Race, AnIncumbentStaysUnlessItIsBeatenByOnePercent) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    SimulatedMeasure measure(with_times({1000, 800, 796, 900}), seed, 0.005);
    RaceOptions o = options_for(4);
    o.incumbent = 1;
    const RaceResult r = race(measure, o);
    EXPECT_EQ(r.winner, 1);
    EXPECT_FALSE(r.is_replaced);
    EXPECT_NEAR(r.ratio.value, 0.8, 0.01);
    EXPECT_EQ(r.code, "code 1");
  }
  SimulatedMeasure measure(with_times({1000, 800, 740, 900}), 1, 0.005);
  RaceOptions o = options_for(4);
  o.incumbent = 1;
  const RaceResult r = race(measure, o);
  EXPECT_EQ(r.winner, 2);
  EXPECT_NEAR(r.ratio_to_incumbent.value, 0.925, 0.01);
}

/// A slow incumbent falls out of the field, and is still what winners are compared with.
TEST(Race, ASlowIncumbentIsMeasuredInTheEnd) {
  auto candidates = field();
  candidates[7].ns = 1500;
  SimulatedMeasure measure(candidates, 3);
  RaceOptions o = options_for(candidates.size());
  o.incumbent = 7;
  const RaceResult r = race(measure, o);
  EXPECT_TRUE(r.is_replaced);
  EXPECT_NEAR(r.ratio_to_incumbent.value, r.ratio.value / 1.5, 0.02);
}

TEST(Race, WrongAndFaultyCandidatesNeverWin) {
  auto candidates = with_times({1000, 10, 20, 30, 40, 900, 950, 10});
  candidates[1].check = Verdict::wrong;
  candidates[7].once = Verdict::wrong;
  candidates[2].check = Verdict::fault;
  candidates[3].timed = Verdict::timeout;
  candidates[4].prepared = {Verdict::refused, "no shared memory", "", 0, 0, false};
  SimulatedMeasure measure(candidates, 1);
  RaceOptions o = options_for(candidates.size());
  std::map<std::string, Verdict> recorded;
  o.record = [&](const Known& k) { recorded[k.code] = k.verdict; };
  const RaceResult r = race(measure, o);
  EXPECT_EQ(r.winner, 5);
  EXPECT_EQ(r.rejected.size(), 5u);
  EXPECT_EQ(recorded["code 1"], Verdict::wrong);
  EXPECT_EQ(recorded["code 2"], Verdict::fault);
  EXPECT_EQ(recorded["code 3"], Verdict::timeout);
  EXPECT_EQ(measure.runs[1], 5) << "the first round alone";
  EXPECT_EQ(measure.runs[7], 0) << "what writes outside its arguments runs beside nobody";
}

/// However fast wrong results are, a third of the correct ones goes on.
TEST(Race, WrongCandidatesDoNotDisplaceOthers) {
  auto candidates = field();
  for (int i = 1; i < 20; ++i) {
    candidates[static_cast<std::size_t>(i)].ns = 100;
    candidates[static_cast<std::size_t>(i)].check = Verdict::wrong;
  }
  double best = 1e9;
  for (std::size_t i = 20; i < candidates.size(); ++i) best = std::min(best, candidates[i].ns);
  SimulatedMeasure measure(candidates, 1);
  const RaceResult r = race(measure, options_for(candidates.size()));
  EXPECT_LT(measure.of(r.winner).ns, best * 1.015);
  EXPECT_EQ(r.rejected.size(), 19u);
}

TEST(Race, CodeThatWasFoundWrongIsNotRunAgain) {
  SimulatedMeasure measure(with_times({1000, 10, 900}), 1);
  RaceOptions o = options_for(3);
  o.recall = [](const std::string& code) -> std::optional<Known> {
    if (code == "code 1") return Known{code, Verdict::fault};
    return std::nullopt;
  };
  EXPECT_EQ(race(measure, o).winner, 2);
  EXPECT_FALSE(measure.checked.contains(1));
}

TEST(Race, AnIncumbentThatFailsDoesNotStay) {
  auto candidates = with_times({1000, 500, 1100});
  candidates[1].check = Verdict::wrong;
  SimulatedMeasure measure(candidates, 1);
  RaceOptions o = options_for(3);
  o.incumbent = 1;
  EXPECT_EQ(race(measure, o).winner, 0);
}

TEST(Race, AReferenceThatCannotRunIsAnError) {
  auto candidates = with_times({1000, 500});
  candidates[0].check = Verdict::fault;
  SimulatedMeasure measure(candidates, 1);
  EXPECT_THROW(race(measure, options_for(2)), InternalError);
}

TEST(Race, DegradedCodeRacesOnlyWhereAllIs) {
  auto candidates = with_times({1000, 500, 900});
  candidates[1].prepared.is_degraded = true;
  candidates[1].prepared.why = "spills 64 bytes";
  SimulatedMeasure some(candidates, 1);
  const RaceResult r = race(some, options_for(3));
  EXPECT_EQ(r.winner, 2);
  EXPECT_THAT(r.rejected.at(0).second, HasSubstr("spills 64 bytes"));
  candidates[2].prepared.is_degraded = true;
  SimulatedMeasure all(candidates, 1);
  EXPECT_EQ(race(all, options_for(3)).winner, 1);
}

TEST(Race, EqualMachineCodeIsMeasuredOnce) {
  auto candidates = with_times({1000, 900, 900, 1000});
  candidates[1].prepared.code = candidates[2].prepared.code = "same";
  candidates[3].prepared.code = "code 0";
  SimulatedMeasure measure(candidates, 1);
  const RaceResult r = race(measure, options_for(4));
  EXPECT_EQ(r.winner, 1);
  EXPECT_EQ(r.raced, 1);
  EXPECT_EQ(r.rejected.size(), 2u);
}

TEST(Race, TiesGoToTheFewestResources) {
  auto candidates = with_times({1000, 700, 702, 701});
  candidates[1].prepared.shared_bytes = 200 << 10;
  candidates[2].prepared.shared_bytes = 100 << 10;
  candidates[3].prepared.shared_bytes = 100 << 10;
  candidates[2].prepared.registers = 168;
  candidates[3].prepared.registers = 232;
  for (unsigned seed = 0; seed < 6; ++seed) {
    SimulatedMeasure measure(candidates, seed, 0.003);
    EXPECT_EQ(race(measure, options_for(4)).winner, 2);
  }
}

/// A device that slows down as it heats up drifts in every round: what is faster by more than the
/// drift wins all the same, and nothing else does.
TEST(Race, AWinnerIsFasterByMoreThanTheDevicesDrift) {
  const auto with_drift = [](double ns, double drift) {
    SimulatedMeasure measure(with_times({1000, ns}), 1);
    measure.unsteady = 1000;
    measure.drift = drift;
    return race(measure, options_for(2));
  };
  EXPECT_TRUE(with_drift(500, 0.05).is_replaced);
  EXPECT_FALSE(with_drift(500, 0.05).is_low_confidence);
  EXPECT_EQ(with_drift(500, 0.05).winner, 1);
  EXPECT_FALSE(with_drift(960, 0.05).is_replaced);
  EXPECT_TRUE(with_drift(960, 0.05).is_low_confidence);
  EXPECT_FALSE(with_drift(1100, 0.05).is_low_confidence) << "the incumbent stays either way";
}

TEST(Race, RoundsThatDriftAreRepeatedTwiceWhileThereIsTime) {
  SimulatedMeasure twice(with_times({1000, 970}), 1, 0.002);
  twice.unsteady = 2;
  EXPECT_TRUE(race(twice, options_for(2)).is_replaced);
  EXPECT_EQ(twice.rounds, 6);
  SimulatedMeasure ever(with_times({1000, 500}), 1);
  ever.unsteady = 1000;
  RaceOptions o = options_for(2);
  o.seconds = [&] { return 0.7 * o.limits.seconds; };
  race(ever, o);
  EXPECT_EQ(ever.rounds, 4);
}

/// The reference takes 4 ms, as a matmul of 8192^3 with small tiles does.
TEST(Race, AQuickRaceOfASlowKernelEndsInTime) {
  auto candidates = field();
  SimulatedMeasure measure(candidates, 1);
  measure.seconds_of_ns = 0.004 / 1000;
  measure.unsteady = 1000;
  RaceOptions o = options_for(candidates.size(), Budget::quick);
  o.seconds = [&] { return measure.seconds; };
  o.neighbours = [&](int id) { return std::vector{id - 1, std::min(id + 1, 39)}; };
  const RaceResult r = race(measure, o);
  EXPECT_LE(measure.seconds, 3);
  EXPECT_TRUE(r.is_replaced);
  EXPECT_LT(r.ratio.value, 0.75);
}

TEST(Race, FewerCandidatesRaceWhereTimeIsShort) {
  auto candidates = field();
  SimulatedMeasure measure(candidates, 1);
  RaceOptions o = options_for(candidates.size());
  measure.seconds_of_ns = 0.02 / 1000;
  o.limits.seconds = 2;
  o.seconds = [&] { return measure.seconds; };
  const RaceResult r = race(measure, o);
  EXPECT_EQ(r.raced, 16) << "one batch";
  EXPECT_EQ(measure.rounds, 3) << "none of 45 repetitions";
}

TEST(Race, NeighboursOfTheBestAreTried) {
  auto candidates = with_times({1000, 900, 950, 800, 700, 990, 650});
  SimulatedMeasure measure(candidates, 1);
  RaceOptions o = options_for(3);  // 0, 1, 2 are seeds
  o.texts.resize(3);
  RaceOptions all = options_for(candidates.size());
  o.neighbours = [](int id) {
    return id == 1   ? std::vector{3, 5}
           : id == 3 ? std::vector{4}
           : id == 4 ? std::vector{6}
                     : std::vector<int>{};
  };
  o.texts = all.texts;
  o.seeds = 3;
  EXPECT_EQ(race(measure, o).winner, 6);
}

/// Killed after any round, a second process goes on with what the first one kept.
TEST_F(StoreTest, AKilledRaceIsResumed) {
  const auto candidates = field();
  const auto run = [&](SimulatedMeasure& measure) {
    TuningStore store(options());
    RaceLog log(store, key_of(1), "simulated");
    RaceOptions o = options_for(candidates.size());
    o.recall = [&](const std::string& code) { return log.recall(code); };
    o.record = [&](const Known& k) { log.record(k); };
    return race(measure, o);
  };
  for (int killed_at = 4; killed_at <= 6; ++killed_at) {
    std::filesystem::remove_all(folder_);
    const pid_t child = ::fork();
    if (child == 0) {
      SimulatedMeasure measure(candidates, 1);
      int left = killed_at;
      measure.on_round = [&] {
        if (--left == 0) ::raise(SIGKILL);
      };
      run(measure);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    SimulatedMeasure measure(candidates, 2);
    const RaceResult r = run(measure);
    EXPECT_LT(measure.of(r.winner).ns, 700 * 1.025);
    EXPECT_TRUE(r.is_replaced);
    for (const auto& [id, runs] : measure.runs)
      EXPECT_EQ(runs % 15, 0) << "the first rounds, of 5, are not repeated";
    EXPECT_EQ(measure.rounds, 6 - (killed_at - 1));
  }
  EXPECT_TRUE(warnings_.empty());
}

}  // namespace
}  // namespace tegula::autotune::race_test
