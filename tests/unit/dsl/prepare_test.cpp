// prepare(calls): compiles, and launches nothing.
#include "tegula/prepare.h"

#include <gtest/gtest.h>

#include <thread>

#include "tegula/call_plan.h"
#include "tegula/tegula.h"

namespace tegula::prepare_test {
namespace {

auto filling() {
  return kernel("filling", [](Out<i32, 1> y) {
    for (auto i : grid(y, 16)) y(i) = full<i32>(7);
  });
}

class Prepare : public ::testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Prepare, ::testing::Values(Device::cpu(), Device::sim()));

TEST_P(Prepare, KernelsAreCompiledAndNotLaunched) {
  const auto k = filling();
  const Tensor y = Tensor::full({64}, 1, DType::i32, GetParam());
  EXPECT_THROW(k.explain(), CompileError) << "not compiled yet";
  prepare([&] { k(y); });
  EXPECT_NE(k.explain(), "");
  EXPECT_EQ(y.to_doubles(), std::vector<double>(64, 1));
  k(y);
  EXPECT_EQ(y.to_doubles(), std::vector<double>(64, 7));
}

TEST_P(Prepare, TensorsNeedNoMemory) {
  const auto k = filling();
  prepare([&] { k(described({64}, DType::i32, GetParam())); });
  EXPECT_NE(k.explain(), "");
}

/// The same call twice within: neither is run.
TEST_P(Prepare, PlansAreBuiltAndNotRun) {
  const auto k = filling();
  const CallPlans plans;
  int built = 0;
  const Tensor y = Tensor::full({64}, 1, DType::i32, GetParam());
  const auto call = [&] {
    plans.call(Stream(GetParam()), tensor_args(y), {}, [&](PlanBuilder& plan) {
      ++built;
      plan.launch(k, plan.argument(0));
    });
  };
  prepare([&] { call(), call(); });
  EXPECT_EQ(built, 2);
  EXPECT_EQ(y.to_doubles(), std::vector<double>(64, 1));
  EXPECT_NE(k.explain(), "");
  call(), call();
  EXPECT_EQ(built, 3) << "the second call runs the plan of the first";
  EXPECT_EQ(y.to_doubles(), std::vector<double>(64, 7));
  prepare(call);
  y.fill(1);
  prepare(call);
  EXPECT_EQ(y.to_doubles(), std::vector<double>(64, 1)) << "nor is a plan that was kept";
  EXPECT_EQ(built, 5);
  call();
  EXPECT_EQ(built, 5) << "which serves as before";
}

/// Another thread makes the call meanwhile: its plan is kept and is that of the call, too.
TEST_P(Prepare, PlansOfOtherThreadsAreNotRun) {
  const auto k = filling();
  const CallPlans plans;
  const Tensor y = Tensor::full({64}, 1, DType::i32, GetParam());
  const auto call = [&] {
    plans.call(Stream(GetParam()), tensor_args(y), {},
               [&](PlanBuilder& plan) { plan.launch(k, plan.argument(0)); });
  };
  prepare([&] {
    std::thread(call).join();
    EXPECT_EQ(y.to_doubles(), std::vector<double>(64, 7));
    y.fill(1);
    call();
  });
  EXPECT_EQ(y.to_doubles(), std::vector<double>(64, 1));
}

TEST_P(Prepare, EndsWithAnErrorOfTheCalls) {
  const auto k = filling();
  const Tensor y = Tensor::full({64}, 1, DType::i32, GetParam());
  EXPECT_THROW(prepare([] { throw CompileError(Diagnostic{"", "mine", {}, {}, ""}); }),
               CompileError);
  k(y);
  EXPECT_EQ(y.to_doubles(), std::vector<double>(64, 7));
}

}  // namespace
}  // namespace tegula::prepare_test
