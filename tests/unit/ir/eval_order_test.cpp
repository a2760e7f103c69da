// Scans by functions, sorts and ranks as the interpreter defines them.
#include <cmath>
#include <limits>

#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_order_test {
namespace {

using testing::ElementsAre;

/// The affine map of a pair (a, b), x -> a x + b, of which two compose in one order only.
std::string affine(const std::string& identities, const std::string& attrs) {
  return R"(kernel @s tile (%i: view<2x4xi32, in>, %o: view<2x4xi32, out>) {
    %z = const [value = 0] : i32
    %one = const [value = 1] : i32
    %t = load_view %i, %z, %z [axes = [0, 1]] : tile<2x4xi32>
    %two = const [value = 2] : tile<2x4xi32>
    %a, %b = scan_with %two, %t)" +
         identities + " [axis = 1" + attrs +
         R"(] : tile<2x4xi32>, tile<2x4xi32> { (%a0: i32, %b0: i32, %a1: i32, %b1: i32)
      %aa = mul %a0, %a1
      %m = mul %a1, %b0
      %bb = add %m, %b1
      yield %aa, %bb
    }
    store_view %o, %b, %z, %z [axes = [0, 1]]
  })";
}

std::vector<i32> scanned(const std::string& identities, const std::string& attrs) {
  HostTensor<i32> in({2, 4}, {1, 2, 3, 4, 1, 0, 0, 1}), out({2, 4});
  run_clean(affine(identities, attrs), {in.view(), out.view()});
  return out.storage;
}

TEST(EvalOrder, ScansByAFunctionKeepTheOrderOfTheAxis) {
  EXPECT_THAT(scanned("", ""), ElementsAre(1, 4, 11, 26, 1, 2, 4, 9));
  EXPECT_THAT(scanned("", ", reverse = 1"), ElementsAre(26, 18, 10, 4, 9, 1, 1, 1));
  EXPECT_THAT(scanned(", %one, %z", ", exclusive = 1"), ElementsAre(0, 1, 4, 11, 0, 1, 2, 4));
  EXPECT_THAT(scanned(", %one, %z", ", exclusive = 1, reverse = 1"),
              ElementsAre(18, 10, 4, 0, 1, 1, 1, 0));
}

std::string sort_of(const std::string& type, const std::string& attrs, int kept) {
  const std::string k = std::to_string(kept);
  return "kernel @s tile (%i: view<?x" + type + ", in>, %v: view<8x" + type +
         ", inout>, %n: view<8xi32, inout>) { %z = const [value = 0] : i32 %t = load_view %i, %z "
         "[axes = [0]] : tile<8x" +
         type + "> %a, %b = sort %t [axis = 0" + attrs + "] : tile<" + k + "x" + type + ">, tile<" +
         k + "xi32> store_view %v, %a, %z [axes = [0]] store_view %n, %b, %z [axes = [0]] }";
}

TEST(EvalOrder, SortIsStableAndPutsNanAndAbsentElementsLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool is_descending : {false, true}) {
    HostTensor<f32> in({7}, {-0.0f, nan, 2, 0, 2, -1, nan});
    HostTensor<f32> values({8}, std::vector<f32>(8, 9));
    HostTensor<i32> indices({8}, std::vector<i32>(8, 9));
    run_clean(sort_of("f32", is_descending ? ", descending = 1" : "", 8),
              {in.view(), values.view(), indices.view()});
    if (is_descending)
      EXPECT_THAT(indices.storage, ElementsAre(2, 4, 0, 3, 5, 1, 6, 9));
    else
      EXPECT_THAT(indices.storage, ElementsAre(5, 0, 3, 2, 4, 1, 6, 9));
    EXPECT_TRUE(std::isnan(values.storage[6]));
    EXPECT_EQ(values.storage[7], 9);
    for (const float v : values.storage) EXPECT_FALSE(v == 0 && std::signbit(v));
  }
}

TEST(EvalOrder, SortKeepsTheFirstElements) {
  HostTensor<i32> in({8}, {3, 1, 2, 3, 0, 3, 1, 2}), values({8}), indices({8});
  run_clean(sort_of("i32", ", descending = 1, count = 3", 3),
            {in.view(), values.view(), indices.view()});
  EXPECT_THAT(indices.storage, ElementsAre(0, 3, 5, 0, 0, 0, 0, 0));
}

TEST(EvalOrder, RanksCountEqualKeysBefore) {
  HostTensor<i32> in({6}, {2, 0, 2, 3, -1, 2}), ranks({8}, std::vector<i32>(8, 9)), counts({3});
  run_clean(
      R"(kernel @r tile (%i: view<?xi32, in>, %r: view<8xi32, inout>, %c: view<3xi32, inout>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z [axes = [0]] : tile<8xi32>
    %ranks, %counts = key_ranks %t [count = 3] : tile<8xi32>, tile<3xi32>
    store_view %r, %ranks, %z [axes = [0]]
    store_view %c, %counts, %z [axes = [0]]
  })",
      {in.view(), ranks.view(), counts.view()});
  EXPECT_THAT(ranks.storage, ElementsAre(0, 0, 1, -1, -1, 2, 9, 9));
  EXPECT_THAT(counts.storage, ElementsAre(1, 0, 3));
}

}  // namespace
}  // namespace tegula::ir::eval_order_test
