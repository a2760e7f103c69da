// Call plans: which calls share one, what a call patches, and how long plans live. They run in the
// interpreter, so that the thread sanitizer observes everything.
#include "tegula/call_plan.h"

#include <gmock/gmock.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "dsl/plan_table.h"
#include "run_on_host.h"
#include "support/env.h"
#include "support/generation.h"

namespace tegula::call_plan_test {
namespace {

using dsl::kMaxPlans;
using dsl::number_of_plans;
using test::empty;
using test::host;
using test::kHost;
using testing::ElementsAre;
using testing::HasSubstr;

/// z = (x * by) + y, through scratch memory.
class ScaledSum {
 public:
  void operator()(const Tensor& x, const Tensor& y, const Tensor& z, float by,
                  std::uint64_t option = 0) const {
    const std::uint64_t options[] = {option};
    plans_.call(Stream(kHost), Packing::pack(x, y, z, by), options, [&](PlanBuilder& plan) {
      ++builds;
      const PlanSlot scaled = plan.scratch(plan.tensor(plan.argument(0)).shape(), DType::f32);
      plan.launch(scale_, plan.argument(0), scaled, plan.argument(3));
      plan.launch(sum_, scaled, plan.argument(1), plan.argument(2));
    });
  }
  mutable std::atomic<int> builds = 0;

 private:
  using Packing = Kernel<In<f32, 1>, In<f32, 1>, Out<f32, 1>, Scalar<f32>>;
  Kernel<In<f32, 1>, Out<f32, 1>, Scalar<f32>> scale_ =
      kernel("scale", [](In<f32, 1> x, Out<f32, 1> y, Scalar<f32> by) {
        for (auto i : grid(y, 16)) y(i) = x(i) * by;
      });
  Kernel<In<f32, 1>, In<f32, 1>, Out<f32, 1>> sum_ =
      kernel("sum", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
        for (auto i : grid(z, 16)) z(i) = x(i) + y(i);
      });
  CallPlans plans_;
};

TEST(CallPlan, ARepeatedCallReusesDecisionsAndReadsNewArguments) {
  const ScaledSum f;
  const Tensor x = host({1, 2}), y = host({10, 20}), z = empty({2}), other = host({3, 4});
  f(x, y, z, 2.0f);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(12, 24));
  f(x, y, z, 3.0f);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(13, 26));
  f(other, y, z, 1.0f);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(13, 24));
  f(x, x, z, 1.0f);  // both only read
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(2, 4));
  EXPECT_EQ(f.builds, 1);
}

TEST(CallPlan, ShapesStridesAlignmentAndOptionsArePartOfTheKey) {
  const ScaledSum f;
  const Tensor memory = Tensor::zeros({512}, DType::f32, kHost), y = host({10, 20}), z = empty({2});
  const auto expect_builds = [&](int builds, const Tensor& x, std::uint64_t option = 0) {
    f(x, y, z, 1.0f, option);
    EXPECT_EQ(f.builds, builds) << x.str() << " " << x.data();
    EXPECT_THAT(z.to_vector<float>(), ElementsAre(10, 20));
  };
  expect_builds(1, memory.slice(0, 0, 2));
  expect_builds(1, memory.slice(0, 64, 66));    // equally aligned
  expect_builds(2, memory.slice(0, 1, 3));      // to 4 bytes alone
  expect_builds(2, memory.slice(0, 33, 35));    // likewise
  expect_builds(3, memory.slice(0, 0, 4, 2));   // every second element
  expect_builds(4, memory.slice(0, 0, 6, 3));   // every third
  expect_builds(4, memory.slice(0, 0, 10, 5));  // every fifth: an odd stride, too
  expect_builds(5, memory.slice(0, 0, 2), 7);
  f(memory.slice(0, 0, 3), memory.slice(0, 0, 3), empty({3}), 1.0f);
  EXPECT_EQ(f.builds, 6);
}

TEST(CallPlan, WrittenTensorsMustNotOverlapInAnyCall) {
  const ScaledSum f;
  const Tensor memory = Tensor::zeros({512}, DType::f32, kHost), x = memory.slice(0, 0, 64),
               y = memory.slice(0, 128, 192);
  f(x, y, memory.slice(0, 256, 320), 1.0f);
  f(x, y, x, 1.0f);  // x is read by an earlier launch only
  try {
    f(x, y, y, 1.0f);
    FAIL() << "overlap";
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("sum"));
    EXPECT_TRUE(e.diagnostic().loc.known());
  }
  f(x, y, memory.slice(0, 256, 320), 1.0f);
  EXPECT_EQ(f.builds, 1);
}

TEST(CallPlan, ACapturedTensorIsReadAtEveryCallAndIsPartOfTheKey) {
  const Tensor memory = Tensor::from(std::vector<float>(256, 1.0f), kHost);
  Tensor table = host({1, 2});
  const auto add = kernel("add_table", [&table](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 16)) y(i) = x(i) + view<f32, 1>(table)(i);
  });
  const CallPlans plans;
  int builds = 0;
  const Tensor x = host({10, 20}), y = empty({2});
  const auto call = [&] {
    plans.call(Stream(kHost), decltype(add)::pack(x, y), {}, [&](PlanBuilder& plan) {
      ++builds;
      plan.launch(add, plan.argument(0), plan.argument(1));
    });
    return y.to_vector<float>();
  };
  EXPECT_THAT(call(), ElementsAre(11, 22));
  EXPECT_THAT(call(), ElementsAre(11, 22));
  EXPECT_EQ(builds, 1);
  table = host({3, 4});  // like the previous one, at another address
  EXPECT_THAT(call(), ElementsAre(13, 24));
  table = memory.slice(0, 1, 3);  // aligned to 4 bytes alone
  EXPECT_THAT(call(), ElementsAre(11, 21));
  EXPECT_EQ(builds, 2);
  table = memory.slice(0, 3, 5);
  EXPECT_THAT(call(), ElementsAre(11, 21));
  EXPECT_EQ(builds, 2);
}

TEST(CallPlan, AnErrorIsThrownAgainAndNotCached) {
  const ScaledSum f;
  const std::size_t before = number_of_plans();
  for (int i = 0; i < 2; ++i)
    EXPECT_THROW(f(host({1}), host({1}), Tensor::zeros({1}, DType::i32, kHost), 1.0f),
                 CompileError);
  EXPECT_EQ(f.builds, 2);
  EXPECT_EQ(number_of_plans(), before);
}

TEST(CallPlan, AGenerationEndsItsDecisions) {
  const ScaledSum f;
  const Tensor x = host({1, 2}), y = host({10, 20}), z = empty({2});
  f(x, y, z, 1.0f);
  begin_generation();
  f(x, y, z, 1.0f);
  EXPECT_EQ(f.builds, 2);
  {
    const EnvOverride scope(env());
    f(x, y, z, 1.0f);
    EXPECT_EQ(f.builds, 3);
  }
  f(x, y, z, 1.0f);
  EXPECT_EQ(f.builds, 4);
}

TEST(CallPlan, ModesThatLookAtLaunchesDo) {
  const ScaledSum f;
  const Tensor x = host({1, 2}), y = host({10, 20}), z = empty({2});
  f(x, y, z, 1.0f);
  const std::size_t before = number_of_plans();
  Env eager = env(), retraced = env();
  eager.eager = true, retraced.check = {"retrace"};
  for (const Env& mode : {eager, retraced}) {
    const EnvOverride scope(mode);
    f(x, y, z, 2.0f);
    EXPECT_THAT(z.to_vector<float>(), ElementsAre(12, 24));
  }
  EXPECT_EQ(f.builds, 3);
  EXPECT_EQ(number_of_plans(), before);
}

TEST(CallPlan, ACallInsideATraceIsRefused) {
  const ScaledSum f;
  const Tensor x = host({1, 2}), y = host({10, 20}), z = empty({2});
  f(x, y, z, 1.0f);
  const auto outer = kernel("outer", [&](Out<f32, 1> out) {
    f(x, y, z, 1.0f);
    for (auto i : grid(out, 16)) out(i) = full<f32>(0.0f, 16);
  });
  EXPECT_THROW(outer(empty({2})), CompileError);
}

TEST(CallPlan, TenThousandKeysKeepTheBoundAndACallableForgetsItsOwn) {
  const std::size_t before = number_of_plans();
  const Tensor y = host({10, 20}), z = empty({2});
  {
    const CallPlans plans;
    const auto copy = kernel("copy_pair", [](In<f32, 1> x, Out<f32, 1> y) {
      for (auto i : grid(y, 16)) y(i) = x(i);
    });
    const Tensor all = Tensor::zeros({10000}, DType::f32, kHost);
    using Packing = Kernel<In<f32, 1>, In<f32, 1>, Out<f32, 1>>;
    for (std::int64_t n = 1; n <= 10000; ++n)
      plans.call(Stream(kHost), Packing::pack(all.slice(0, 0, n), y, z), {},
                 [&](PlanBuilder& plan) { plan.launch(copy, plan.argument(1), plan.argument(2)); });
    EXPECT_LE(number_of_plans(), kMaxPlans);
    EXPECT_GT(number_of_plans(), kMaxPlans / 2);
  }
  EXPECT_LE(number_of_plans(), before);
}

TEST(CallPlan, ThreadsShareCallables) {
  constexpr int kThreads = 16, kCallables = 8, kShapes = 200;
  const std::vector<ScaledSum> callables(kCallables);
  const Tensor ones = Tensor::full({16 * kShapes}, 1, DType::f32, kHost);
  std::atomic<int> wrong = 0;
  const auto work = [&](int thread) {
    const Tensor z = empty({16 * kShapes});
    for (int i = 0; i < kShapes; ++i)
      for (int c = 0; c < kCallables; ++c) {
        const int shape = (i * 7 + thread * 13) % kShapes;
        const std::int64_t n = 1 + shape % 16, at = 16 * shape;
        const Tensor x = ones.slice(0, at, at + n), out = z.slice(0, at, at + n);
        callables[static_cast<std::size_t>((c + thread) % kCallables)](
            x, x, out, static_cast<float>(c), static_cast<std::uint64_t>(shape));
        if (out.to_vector<float>() != std::vector<float>(static_cast<std::size_t>(n), 1.0f + c))
          ++wrong;
      }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(number_of_plans(), kMaxPlans);
}

}  // namespace
}  // namespace tegula::call_plan_test
