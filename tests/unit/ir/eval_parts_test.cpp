// Concatenations, gathers, scatters and views at an address as the interpreter defines them.
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_parts_test {
namespace {

using ::testing::ElementsAre;

TEST(EvalParts, ConcatJoinsTiles) {
  HostTensor<i32> in({4}, {1, 2, 3, 4}), out({6});
  run_clean(R"(kernel @c tile (%i: view<4xi32, in>, %o: view<6xi32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z [axes = [0]] : tile<4xi32>
    %b = tile_slice %t [offsets = [2]] : tile<2xi32>
    %c = tile_concat %b, %t [axis = 0] : tile<6xi32>
    store_view %o, %c, %z [axes = [0]]
  })",
            {in.view(), out.view()});
  EXPECT_THAT(out.storage, ElementsAre(3, 4, 1, 2, 3, 4));
}

/// Rows of two elements, four apart; the second row of the box is the view's last.
TEST(EvalParts, AMadeViewIsOfTheMemoryAtItsAddress) {
  HostTensor<i32> in({12}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}), out({2, 2});
  run_clean(R"(kernel @m tile (%p: ptr<i32>, %o: view<2x2xi32, out>) {
    %z = const [value = 0] : i64
    %one = const [value = 1] : i64
    %rows = const [value = 3] : i64
    %columns = const [value = 2] : i64
    %pitch = const [value = 4] : i64
    %a = make_view %p, %rows, %columns, %pitch, %one : view<?x?xi32, inout, made, align=4, strides=?x1>
    %t = load_view %a, %one, %z [axes = [0, 1]] : tile<2x2xi32>
    store_view %o, %t, %z, %z [axes = [0, 1]]
  })",
            {in.pointer(), out.view()});
  EXPECT_THAT(out.storage, ElementsAre(10, 11, 20, 21));
}

TEST(EvalParts, GatherTakesTheElementThatTheIndexNames) {
  HostTensor<i32> in({2, 3}, {10, 11, 12, 20, 21, 22}), at({2, 2}, {2, 0, 1, 1}), out({2, 2});
  run_clean(
      R"(kernel @g tile (%i: view<2x3xi32, in>, %n: view<2x2xi32, in>, %o: view<2x2xi32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z, %z [axes = [0, 1]] : tile<2x3xi32>
    %a = load_view %n, %z, %z [axes = [0, 1]] : tile<2x2xi32>
    %g = gather %t, %a [axis = 1] : tile<2x2xi32>
    store_view %o, %g, %z, %z [axes = [0, 1]]
  })",
      {in.view(), at.view(), out.view()});
  EXPECT_THAT(out.storage, ElementsAre(12, 10, 21, 21));
}

TEST(EvalParts, ScatterStoresOrCombinesAtTheIndex) {
  for (const char* kind : {"store", "add"}) {
    HostTensor<i32> in({4}, {1, 2, 3, 4}), at({2}, {3, 1}), out({4});
    run_clean(
        std::string(
            R"(kernel @s tile (%i: view<4xi32, in>, %n: view<2xi32, in>, %o: view<4xi32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z [axes = [0]] : tile<4xi32>
    %a = load_view %n, %z [axes = [0]] : tile<2xi32>
    %s = scatter %t, %a, %a [axis = 0, kind = ")") +
            kind + R"("] : tile<4xi32>
    store_view %o, %s, %z [axes = [0]]
  })",
        {in.view(), at.view(), out.view()});
    if (std::string_view(kind) == "store")
      EXPECT_THAT(out.storage, ElementsAre(1, 1, 3, 3));
    else
      EXPECT_THAT(out.storage, ElementsAre(1, 3, 3, 7));
  }
}

}  // namespace
}  // namespace tegula::ir::eval_parts_test
