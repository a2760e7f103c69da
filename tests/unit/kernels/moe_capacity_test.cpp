// How many rows an expert takes, from a factor as it is written.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/moe/layer_arguments.h"

namespace tegula::kernels::experts::moe_capacity_test {
namespace {

int capacity(float factor, int k, int experts, std::int64_t tokens, int group_tokens = 0) {
  MoeOptions o{.router = routers::mixtral(k), .experts = experts};
  o.capacity = ExpertCapacity{.factor = factor, .group_tokens = group_tokens};
  return capacity_of(o, tokens);
}
int chosen(float factor, int experts, std::int64_t tokens) {
  return capacity_of({.router = {}, .experts = experts, .expert_choice = ExpertChoice{factor}},
                     tokens);
}

/// Each factor of two decimals times each mean that makes a whole number of it: no float holds most
/// of these factors, and half of them are held too large.
TEST(MoeCapacity, WholeProductsStayWhole) {
  for (int hundredths = 1; hundredths <= 400; ++hundredths)
    for (const int whole : {1, 2, 7, 100, 163'840}) {
      const float factor = static_cast<float>(hundredths) / 100;
      const std::int64_t tokens = std::int64_t{100} * whole * 8 / 2;
      ASSERT_EQ(capacity(factor, 2, 8, tokens), hundredths * whole) << factor << " " << tokens;
      ASSERT_EQ(chosen(static_cast<float>(hundredths) / 10000, 8, tokens * 2),
                (hundredths * whole + 99) / 100)
          << factor;
    }
}

TEST(MoeCapacity, OthersAreRoundedUp) {
  EXPECT_EQ(capacity(1.25f, 2, 8, 100), 32);  // of 31.25
  EXPECT_EQ(capacity(1, 1, 3, 100), 34);
  EXPECT_EQ(capacity(1, 1, 256, 256 * 8'000'000LL + 1), 8'000'001);
  EXPECT_EQ(capacity(1e-6f, 1, 1, 1), 1);
  EXPECT_EQ(capacity(0, 2, 8, 100), 0);
  EXPECT_EQ(capacity(1.1f, 2, 8, 4096, 256), 71);  // of 70.4, a group's
  EXPECT_EQ(chosen(0.5f, 4, 10), 2);
}

TEST(MoeCapacity, FactorsWithoutBound) {
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_EQ(capacity(1e30f, 2, 8, 100), kMost);
  EXPECT_EQ(capacity(INFINITY, 2, 8, 100), kMost);
  EXPECT_EQ(capacity(INFINITY, 2, 8, 0), 0);
  EXPECT_EQ(chosen(1e30f, 8, 100), 100);
  EXPECT_EQ(chosen(INFINITY, 8, 0), 0);
}

}  // namespace
}  // namespace tegula::kernels::experts::moe_capacity_test
