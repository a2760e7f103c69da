// Plan fields that a kernel's author requests: they are carried out, distinguish compiled kernels
// apart, and stay with kernels made from that one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/env.h"
#include "tegula/tegula.h"

namespace tegula::with_plan_test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// C = A B, in tiles of 64 rows and BN columns.
auto product() {
  return kernel("product", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
    const int bn = tune("BN", {64, 128}, 64);
    for (auto [m, n] : grid(c, 64, bn)) {
      auto acc = zeros<f32>(64, bn);
      for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
      c(m, n) = acc;
    }
  });
}

struct Operands {
  Tensor a = Tensor::integers({128, 256}, DType::bf16, -2, 3, 1, Device::sim()),
         b = Tensor::integers({256, 128}, DType::bf16, -2, 3, 2, Device::sim());
};

/// The plan that was compiled, and its reasons.
template <class K>
std::string said_by(const K& k, std::vector<double>* results = nullptr) {
  const Operands x;
  const Tensor c = Tensor::zeros({128, 128}, DType::f32, Device::sim());
  k(x.a, x.b, c);
  if (results) *results = c.to_doubles();
  return k.explain();
}

TEST(WithPlan, IsCarriedOut) {
  std::vector<double> usual, planned;
  EXPECT_THAT(said_by(product(), &usual), HasSubstr("stages=4 "));
  const std::string said =
      said_by(product().with_plan("stages=2, producer_warps=0, persistent=true"), &planned);
  EXPECT_THAT(said, HasSubstr("stages=2 "));
  EXPECT_THAT(said, HasSubstr("producer_warps=0 "));
  EXPECT_THAT(said, HasSubstr("persistent=1 "));
  EXPECT_EQ(planned, usual);
}

/// The line that explain() prints, edited and passed.
TEST(WithPlan, TakesAPrintedPlan) {
  const std::string said = said_by(product());
  std::string plan = said.substr(said.find("plan {"));
  plan = plan.substr(0, plan.find('\n'));
  EXPECT_THAT(said_by(product().with_plan(plan)), HasSubstr("\n" + plan + "\n"));
  const auto at = plan.find("stages=4");
  ASSERT_NE(at, plan.npos);
  plan.replace(at, 8, "stages=3");
  EXPECT_THAT(said_by(product().with_plan(plan)), HasSubstr("\n" + plan + "\n"));
  EXPECT_THAT(said_by(product().with_plan(plan).with_plan("stages=5")), HasSubstr(" stages=5 "));
}

/// The same lambda under another plan is another kernel, in this process too.
TEST(WithPlan, IsPartOfTheKey) {
  const auto usual = product(), planned = usual.with_plan("stages=3");
  EXPECT_THAT(said_by(usual), HasSubstr(" stages=4 "));
  EXPECT_THAT(said_by(planned), HasSubstr(" stages=3 "));
  EXPECT_THAT(planned.dump("key"), HasSubstr("plan stages=3\n"));
  EXPECT_THAT(usual.dump("key"), Not(HasSubstr("plan ")));
  EXPECT_THAT(said_by(usual), HasSubstr(" stages=4 "));
  EXPECT_THAT(said_by(product().with_plan("stages=3")), HasSubstr("reused: first call"));
}

TEST(WithPlan, StaysWithOtherTuningAndNames) {
  const auto planned = product().with_plan("stages=3");
  EXPECT_THAT(said_by(planned.with({{"BN", 128}})), HasSubstr(" stages=3 "));
  EXPECT_THAT(said_by(planned.named("A[M, K]", "B[K, N]", "C[M, N]")), HasSubstr(" stages=3 "));
  EXPECT_THAT(said_by(planned.may_alias()), HasSubstr(" stages=3 "));
  EXPECT_THAT(said_by(product().with({{"BN", 128}}).with_plan("stages=3")),
              HasSubstr("tile=tile<64x128xf32"));
}

TEST(WithPlan, TheEnvironmentGoesOverIt) {
  Env other = env();
  other.plan = "stages=2";
  const EnvOverride scope(other);
  const std::string said = said_by(product().with_plan("stages=3 producer_warps=0"));
  EXPECT_THAT(said, HasSubstr(" stages=2 "));
  EXPECT_THAT(said, HasSubstr(" producer_warps=0 "));
}

}  // namespace
}  // namespace tegula::with_plan_test
