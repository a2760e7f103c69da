// Candidates that hang, fault, compute wrong values or damage messages, in a separate process: each
// is reported, the others are still measured, and the tuner's own driver runs none of them.
#include <gmock/gmock.h>

#include <map>

#include "autotune/race/race.h"
#include "autotune/worker/isolated_measure.h"
#include "tegula/error.h"
#include "tests/unit/autotune/worker/planted_kernels.h"

namespace tegula::autotune::worker_measure_test {
namespace {

using runtime::testing::mock;
using ::testing::HasSubstr;
using testing::planted_image;

constexpr Device kGpu = Device::cuda(0);
constexpr std::int64_t kCount = 64;

/// A kernel (in, out, count) whose machine code is a command for the mock driver.
LoadedCandidate candidate(const std::string& verb, float factor = 2, double ns = 1000) {
  runtime::Artefact a;
  a.name = "planted";
  a.target = ir::Target::find("sm_90a").value();
  a.threads = 32;
  a.recipe.ranks = {1, 1};
  a.recipe.steps = {{.op = runtime::GridOp::constant, .immediate = 1}};
  a.recipe.args = {
      {.component = runtime::ArgComponent::pointer, .arg = 0, .offset = 0},
      {.component = runtime::ArgComponent::pointer, .arg = 1, .offset = 8},
      {.component = runtime::ArgComponent::dim, .arg = 0, .dtype = DType::i64, .offset = 16}};
  runtime::set_image(a, planted_image(verb, factor, ns));
  runtime::Compilation of;
  of.device = kGpu;
  return {{{std::make_shared<const runtime::CompiledKernel>(std::move(of), std::move(a)),
            {{.tensor = 0}, {.tensor = 1}}}}};
}

class WorkerMeasureTest : public ::testing::Test {
 protected:
  /// A measurement whose reference takes 2000 ns.
  std::unique_ptr<LaunchMeasure> measure(const std::string& reference = "times") {
    auto made = measure_in_worker(tensors_, kGpu, options_);
    made->load(0, candidate(reference, 2, 2000));
    return made;
  }
  std::unique_ptr<LaunchMeasure> checked_measure() {
    auto made = measure();
    EXPECT_EQ(made->check(0).verdict, Verdict::ok);
    return made;
  }
  static void expect_half(LaunchMeasure& m, int id) {
    m.load(id, candidate("times", 2, 1000));
    EXPECT_EQ(m.try_once(id).verdict, Verdict::ok);
    EXPECT_EQ(m.check(id).verdict, Verdict::ok);
    const Round r = m.round(std::span(&id, 1), 5, 1);
    ASSERT_EQ(r.of.size(), 1u);
    ASSERT_EQ(r.of[0].ratios.size(), 5u);
    EXPECT_NEAR(r.of[0].ratios[0], 0.5, 0.01);
    EXPECT_NEAR(m.reference_ns(), 2000, 1);
  }

  runtime::testing::MockDriver driver_;
  Tensor in_ = Tensor::full({kCount}, 3, DType::f32, kGpu);
  Tensor out_ = Tensor::full({kCount}, 7, DType::f32, kGpu);
  MeasuredTensors tensors_{{in_, detail::ViewAccess::In, 0}, {out_, detail::ViewAccess::Out, 1}};
  WorkerOptions options_ = [] {
    WorkerOptions options;
    options.program = TEGULA_MOCK_WORKER;
    options.patience = std::chrono::milliseconds(1000);
    return options;
  }();
};

TEST_F(WorkerMeasureTest, TimesAndChecksElsewhere) {
  const auto m = checked_measure();
  expect_half(*m, 1);
  m->load(2, candidate("times", 3));
  EXPECT_EQ(m->try_once(2).verdict, Verdict::ok);
  const CheckResult wrong = m->check(2);
  EXPECT_EQ(wrong.verdict, Verdict::wrong);
  EXPECT_THAT(wrong.why, HasSubstr("argument 1: element 0 is 9, not 6"));
  m->load(3, candidate("outside"));
  EXPECT_THAT(m->try_once(3).why, HasSubstr("behind byte 256 of argument 1"));
  EXPECT_TRUE(mock().launches.empty()) << "nothing runs in this process";
  EXPECT_EQ(out_.to_doubles(), std::vector<double>(kCount, 7));
}

/// The half that one candidate writes must not complete the other's result.
TEST_F(WorkerMeasureTest, TwoThatWriteHalfAreBothWrong) {
  const auto m = checked_measure();
  for (const int id : {1, 2}) {
    m->load(id, candidate("half"));
    EXPECT_EQ(m->try_once(id).verdict, Verdict::ok);
  }
  for (const int id : {1, 2}) EXPECT_EQ(m->check(id).verdict, Verdict::wrong);
}

TEST_F(WorkerMeasureTest, ACandidateThatEndsTheProcessIsNamedAndTheOthersContinue) {
  struct Case {
    const char* verb;
    Verdict verdict;
    const char* why;
  };
  const auto m = checked_measure();
  int id = 1;
  for (const Case& c :
       {Case{"crash", Verdict::fault, "signal 11"}, Case{"exit", Verdict::fault, "exit code 3"},
        Case{"fault", Verdict::fault, "CUDA_ERROR_MOCK"},
        Case{"torn", Verdict::fault, "exit code 0"},
        Case{"garbage", Verdict::fault, "another protocol"},
        Case{"hang", Verdict::timeout, "time limit"}}) {
    SCOPED_TRACE(c.verb);
    m->load(id, candidate(c.verb));
    const CheckResult r = m->try_once(id++);
    EXPECT_EQ(r.verdict, c.verdict);
    EXPECT_THAT(r.why, HasSubstr(c.why));
    expect_half(*m, id++);
  }
  EXPECT_TRUE(mock().launches.empty());
}

TEST_F(WorkerMeasureTest, OneOfARoundIsBlamedForIt) {
  for (const char* verb : {"late hang", "late crash"}) {
    SCOPED_TRACE(verb);
    const auto m = checked_measure();
    const std::vector<int> ids{1, 2, 3};
    for (const int id : ids) {
      m->load(id, candidate(id == 2 ? verb : "times", 2, 1000));
      EXPECT_EQ(m->try_once(id).verdict, Verdict::ok);
    }
    const Round r = m->round(ids, 5, 1);
    ASSERT_EQ(r.of.size(), 3u);
    EXPECT_EQ(r.of[0].ratios.size(), 5u);
    EXPECT_EQ(r.of[1].verdict,
              std::string(verb) == "late hang" ? Verdict::timeout : Verdict::fault);
    EXPECT_EQ(r.of[2].ratios.size(), 5u);
  }
}

TEST_F(WorkerMeasureTest, AReferenceThatFailsIsTheCallersError) {
  try {
    (void)measure("crash")->check(0);
    ADD_FAILURE();
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.diagnostic().code, "T2010") << e.what();
  }
  EXPECT_THROW(measure("unloadable"), DeviceError);
}

TEST_F(WorkerMeasureTest, AfterManyLossesFurtherOnesAreNotTried) {
  options_.max_losses = 2;
  const auto m = checked_measure();
  for (const int id : {1, 2, 3}) {
    m->load(id, candidate("crash"));
    EXPECT_EQ(m->try_once(id).verdict, id == 3 ? Verdict::refused : Verdict::fault);
  }
}

TEST_F(WorkerMeasureTest, AProgramOtherThanAWorkerIsAnError) {
  options_.program = "/bin/true";
  EXPECT_THROW(measure(), DeviceError);
  options_.program = "/nonexistent/worker";
  EXPECT_THROW(measure(), DeviceError);
}

/// A call of two launches: the first writes a quarter of its result to the candidate's own memory,
/// the second reads it there.
TEST_F(WorkerMeasureTest, CallsOfSeveralLaunchesPassTemporaryTensors) {
  const auto m = checked_measure();
  const MeasuredView partial{256, DType::f32, {kCount}, {1}};
  LoadedCandidate call{
      {candidate("times", 4, 300).launches[0], candidate("times", 0.5, 200).launches[0]},
      {256 + kCount * 4}};
  call.launches[0].args[1] = {.made = 0, .view = partial};
  call.launches[1].args[0] = {.made = 0, .view = partial};
  m->load(1, call);
  EXPECT_EQ(m->try_once(1).verdict, Verdict::ok);
  EXPECT_EQ(m->check(1).verdict, Verdict::ok);
  const int id = 1;
  EXPECT_NEAR(m->round(std::span(&id, 1), 5, 1).of[0].ratios[0], 0.25, 0.01);
  call.launches[1].args[0] = {.tensor = 0};
  m->load(2, call);
  EXPECT_EQ(m->check(2).verdict, Verdict::wrong) << "half the input";
}

/// A race over candidates that need no compiling.
class PlantedMeasure : public Measure {
 public:
  PlantedMeasure(LaunchMeasure& launches, std::vector<std::string> verbs)
      : launches_(launches), verbs_(std::move(verbs)) {}
  std::vector<Prepared> prepare(std::span<const int> ids) override {
    std::vector<Prepared> out;
    for (const int id : ids) {
      const std::string& verb = verbs_[static_cast<std::size_t>(id)];
      launches_.load(id, candidate(verb, 2, 2000 - 100 * id));
      out.emplace_back().code = verb + std::to_string(id);
    }
    return out;
  }
  CheckResult try_once(int id) override {
    tried.push_back(id);
    return launches_.try_once(id);
  }
  CheckResult check(int id) override { return launches_.check(id); }
  Round round(std::span<const int> ids, int repetitions, std::uint64_t seed) override {
    return launches_.round(ids, repetitions, seed);
  }
  std::vector<int> tried;

 private:
  LaunchMeasure& launches_;
  std::vector<std::string> verbs_;
};

TEST_F(WorkerMeasureTest, ARaceRecordsCandidatesThatHungOrFaulted) {
  const std::vector<std::string> verbs{"times", "times", "hang", "crash", "times"};
  std::map<std::string, Known> store;
  RaceOptions options;
  options.texts = verbs;
  options.recall = [&](const std::string& code) {
    const auto at = store.find(code);
    return at == store.end() ? std::nullopt : std::optional(at->second);
  };
  options.record = [&](const Known& k) { store[k.code] = k; };
  for (const bool is_first : {true, false}) {
    const auto launches = measure_in_worker(tensors_, kGpu, options_);
    PlantedMeasure measure(*launches, verbs);
    const RaceResult r = race(measure, options);
    EXPECT_EQ(r.winner, 4);
    EXPECT_NEAR(r.ratio.value, 0.8, 0.01);
    EXPECT_EQ(store.at("hang2").verdict, Verdict::timeout);
    EXPECT_EQ(store.at("crash3").verdict, Verdict::fault);
    EXPECT_EQ(measure.tried, is_first ? (std::vector{1, 2, 3, 4}) : (std::vector{1, 4}));
  }
}

}  // namespace
}  // namespace tegula::autotune::worker_measure_test
