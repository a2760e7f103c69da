// Clusters in the interpreter: concurrent programs, and the sum of which each receives a part.
#include "tegula/error.h"
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_cluster_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EvalCluster, RanksAndNumbersCoverTheGrid) {
  HostTensor<i32> out({8});
  run_clean(R"(kernel @ids tile cluster(4) (%o: view<?xi32, out>) {
    launch { %g = view_dim %o [axis = 0] : i32  %one = const [value = 1] : i32  yield %g, %one, %one }
    %x = program_id [axis = 0] : i32
    %rank = cluster_rank : i32
    %id = cluster_id : i32
    %ten = const [value = 10] : i32
    %tens = mul %id, %ten
    %n = add %tens, %rank
    store_view %o, %n, %x [axes = []]
  })",
            {out.view()});
  EXPECT_THAT(out.storage, ElementsAre(0, 1, 2, 3, 10, 11, 12, 13));
}

TEST(EvalCluster, TheNumberOfATile) {
  HostTensor<i32> out({6});
  run_clean(R"(kernel @tiles tile cluster(2) (%o: view<?xi32, out>) {
    launch { %g = view_dim %o [axis = 0] : i32  %one = const [value = 1] : i32  yield %g, %one, %one }
    %x = program_id [axis = 0] : i32
    %all = view_dim %o [axis = 0] : i32
    %one1 = const [value = 1] : i32
    %n = xor %x, %one1
    %tile = cluster_tile %n, %all
    store_view %o, %tile, %x [axes = []]
  })",
            {out.view()});
  EXPECT_THAT(out.storage, ElementsAre(1, 0, 3, 2, 5, 4));
}

/// Program p has p + 1 times the tile; each row of the sum goes to another.
constexpr const char* kSum =
    R"(kernel @sum FORM cluster(2) (%x: view<?x?xf32, in>, %o: view<?x?xf32, out>) {
    launch { %two = const [value = 2] : i32  %one = const [value = 1] : i32  yield %two, %one, %one }
    %zero = const [value = 0] : i32
    %one1 = const [value = 1] : i32
    %rank = cluster_rank : i32
    %row = mul %rank, SHIFT
    %times = add %rank, %one1
    %f = cast %times : f32
    %t = load_view %x, %row, %zero [axes = [0, 1]] : tile<2x3xf32>
    %scaled = mul %t, %f
    %sum = cluster_reduce_scatter %scaled [axis = 0] : tile<1x3xf32>
    store_view %o, %sum, %rank, %zero [axes = [0, 1]]
  })";

std::string sum(std::string form, std::string shift = "%zero") {
  std::string text = kSum;
  text.replace(text.find("FORM"), 4, form);
  text.replace(text.find("SHIFT"), 5, shift);
  return text;
}

TEST(EvalCluster, EachGetsItsPartOfTheSum) {
  for (const char* form : {"tile", "machine"}) {
    SCOPED_TRACE(form);
    auto x = iota<f32>({2, 3});
    HostTensor<f32> out({2, 3});
    run_clean(sum(form), {x.view(), out.view()});
    EXPECT_THAT(out.storage, ElementsAre(0, 3, 6, 9, 12, 15));
  }
}

/// The second reads a row further on: its own part is absent, and what the first gets is whole.
TEST(EvalCluster, ElementsAbsentInTheReceiverAreAbsent) {
  auto x = iota<f32>({2, 3});
  HostTensor<f32> out({2, 3}, {-1, -1, -1, -1, -1, -1});
  run_clean(sum("tile", "%one1"), {x.view(), out.view()});
  EXPECT_THAT(out.storage, ElementsAre(6, 9, 12, -1, -1, -1));
}

/// Only the giver lacks it: 0.
TEST(EvalCluster, ElementsAbsentInAnotherTileCountAsZero) {
  auto x = iota<f32>({1, 3});
  HostTensor<f32> out({2, 3}, {-1, -1, -1, -1, -1, -1});
  run_clean(sum("tile", "%one1"), {x.view(), out.view()});
  EXPECT_THAT(out.storage, ElementsAre(0, 1, 2, -1, -1, -1));
}

/// Each gets the tiles of all, by rank; what a program lacks arrives as 0, and is there.
TEST(EvalCluster, AllGetTheTilesOfAll) {
  auto x = iota<f32>({3});
  HostTensor<f32> out({2, 4}, {-1, -1, -1, -1, -1, -1, -1, -1});
  run_clean(R"(kernel @all machine cluster(2) (%x: view<?xf32, in>, %o: view<?x?xf32, out>) {
    launch { %two = const [value = 2] : i32  %one = const [value = 1] : i32  yield %two, %one, %one }
    %two1 = const [value = 2] : i32
    %zero = const [value = 0] : i32
    %rank = cluster_rank : i32
    %first = mul %rank, %two1
    %t = load_view %x, %first [axes = [0]] : tile<2xf32>
    %all = cluster_gather %t : tile<2x2xf32>
    %line = reshape %all : tile<4xf32>
    store_view %o, %line, %rank, %zero [axes = [1]]
  })",
            {x.view(), out.view()});
  EXPECT_THAT(out.storage, ElementsAre(0, 1, 2, 0, 0, 1, 2, 0));
}

TEST(EvalCluster, GridsThatDoNotDivideAreRefused) {
  HostTensor<i32> out({3});
  try {
    run(R"(kernel @ids tile cluster(2) (%o: view<?xi32, out>) {
      launch { %g = view_dim %o [axis = 0] : i32  %one = const [value = 1] : i32  yield %g, %one, %one }
    })",
        {out.view()});
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), HasSubstr("3 programs do not divide into clusters of 2"));
  }
}

}  // namespace
}  // namespace tegula::ir::eval_cluster_test
