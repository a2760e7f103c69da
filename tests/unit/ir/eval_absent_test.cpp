// Ragged edges: what is absent, what absence does to each op, and how poison spreads.
#include <cmath>
#include <limits>

#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_absent_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr f32 kInf = std::numeric_limits<f32>::infinity();

/// Loads a 4x4 box of `in` (from offsets r, c), applies `body` to %t and stores %y through `store`.
EvalReport box(HostTensor<f32>& in, std::int64_t r, std::int64_t c, const std::string& body,
               std::vector<EvalArg> outs, const std::string& params) {
  std::vector<EvalArg> args{in.view(), int_arg(r), int_arg(c)};
  args.insert(args.end(), outs.begin(), outs.end());
  return run("kernel @b tile (%i: view<?x?xf32, in>, %r: i32, %c: i32, " + params +
                 ") {\n"
                 "%z = const [value = 0] : i32\n%t = load_view %i, %r, %c [axes = [0, 1]] : "
                 "tile<4x4xf32>\n" +
                 body + "}",
             args);
}

TEST(EvalAbsent, StoresDropAbsentAndOutsideElements) {
  HostTensor<f32> in = iota<f32>({3, 3}, 1), out({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(box(in, 1, 2, "store_view %o, %t, %z, %z [axes = [0, 1]]", {out.view()},
                  "%o: view<4x4xf32, out>")
                  .clean());
  EXPECT_EQ(out.storage[0], 6);
  EXPECT_EQ(out.storage[4], 9);
  out.storage[0] = out.storage[4] = -1;
  EXPECT_THAT(out.storage, Each(-1));
  HostTensor<f32> small({2, 2});
  EXPECT_TRUE(box(in, 0, 0, "store_view %o, %t, %z, %z [axes = [0, 1]]", {small.view()},
                  "%o: view<2x2xf32, out>")
                  .clean());
  EXPECT_THAT(small.storage, ElementsAre(1, 2, 4, 5));
}

TEST(EvalAbsent, NegativeOffsetsAndBoxesFarOutside) {
  HostTensor<f32> in = iota<f32>({3, 3}, 1), out({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(box(in, -3, -2, "store_view %o, %t, %z, %z [axes = [0, 1]]", {out.view()},
                  "%o: view<4x4xf32, out>")
                  .clean());
  EXPECT_EQ(out.storage[14], 1);
  EXPECT_EQ(out.storage[15], 2);
  EXPECT_EQ(out.storage[13], -1);
  HostTensor<f32> untouched({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(box(in, 1 << 30, 7, "store_view %o, %t, %z, %z [axes = [0, 1]]", {untouched.view()},
                  "%o: view<4x4xf32, out>")
                  .clean());
  EXPECT_THAT(untouched.storage, Each(-1));
}

TEST(EvalAbsent, EmptyTensors) {
  HostTensor<f32> in({0, 3}), out({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(box(in, 0, 0, "store_view %o, %t, %z, %z [axes = [0, 1]]", {out.view()},
                  "%o: view<4x4xf32, out>")
                  .clean());
  EXPECT_THAT(out.storage, Each(-1));
  EXPECT_TRUE(run(R"(kernel @e tile (%i: view<?xf32, in>) {
    launch { %n = view_dim %i [axis = 0] : i32  %one = const [value = 1] : i32  yield %n, %one, %one }
    %f = const [value = 0] : i1
    assume %f
  })",
                  {TensorArg{nullptr, {0}, {1}, DType::f32}})
                  .clean());  // no program runs
}

TEST(EvalAbsent, ElementwiseKeepsAbsence) {
  HostTensor<f32> in = iota<f32>({3, 3}, 1), out({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(box(in, 0, 2, R"(
    %one = const [value = 1.0] : f32
    %u = add %t, %one
    %y = add %u, %one
    store_view %o, %y, %z, %z [axes = [0, 1]])",
                  {out.view()}, "%o: view<4x4xf32, out>")
                  .clean());
  EXPECT_THAT(out.storage,
              ElementsAre(5, -1, -1, -1, 8, -1, -1, -1, 11, -1, -1, -1, -1, -1, -1, -1));
}

TEST(EvalAbsent, ReductionsTakeTheIdentityAndKeepOtherEdges) {
  HostTensor<f32> in({3, 3}, {-1, -2, -3, -4, -5, -6, -7, -8, -9});
  HostTensor<f32> rows({4}, std::vector<f32>(4, 99)), total({1});
  EXPECT_TRUE(box(in, 1, 1, R"(
    %m = reduce %t [axis = 1, kind = "max"]
    store_view %rows, %m, %z [axes = [0]]
    %s = reduce %m [axis = 0, kind = "sum"]
    store_view %total, %s, %z [axes = []])",
                  {rows.view(), total.view()}, "%rows: view<4xf32, out>, %total: view<1xf32, out>")
                  .clean());
  // Rows 2 and 3 are outside of the tensor: they are not stored, and not summed as -inf.
  EXPECT_THAT(rows.storage, ElementsAre(-5, -8, 99, 99));
  EXPECT_EQ(total.storage[0], -13);
}

TEST(EvalAbsent, ARowThatIsAllOutsideAlongTheAxisIsTheIdentity) {
  HostTensor<f32> in = iota<f32>({4, 3}), out({4});
  EXPECT_TRUE(box(in, 0, 3, R"(
    %m = reduce %t [axis = 1, kind = "max"]
    store_view %o, %m, %z [axes = [0]])",
                  {out.view()}, "%o: view<4xf32, out>")
                  .clean());
  EXPECT_THAT(out.storage, Each(-kInf));
}

TEST(EvalAbsent, SoftmaxOfARaggedRow) {
  HostTensor<f32> in({1, 3}, {0, std::log(2.0f), std::log(5.0f)}), out({1, 3});
  EXPECT_TRUE(run(R"(kernel @s tile (%i: view<?x?xf32, in>, %o: view<?x?xf32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z, %z [axes = [0, 1]] : tile<2x8xf32>
    %m = reduce %t [axis = 1, kind = "max"]
    %me = expand_dims %m [axis = 1]
    %mb = broadcast %me : tile<2x8xf32>
    %d = sub %t, %mb
    %e = exp %d
    %s = reduce %e [axis = 1, kind = "sum"]
    %se = expand_dims %s [axis = 1]
    %sb = broadcast %se : tile<2x8xf32>
    %y = div %e, %sb
    store_view %o, %y, %z, %z [axes = [0, 1]]
  })",
                  {in.view(), out.view()})
                  .clean());
  EXPECT_NEAR(out.storage[0], 1.0 / 8, 1e-7);
  EXPECT_NEAR(out.storage[1], 2.0 / 8, 1e-7);
  EXPECT_NEAR(out.storage[2], 5.0 / 8, 1e-7);
}

TEST(EvalAbsent, ScanCountsTheIdentity) {
  HostTensor<f32> in = iota<f32>({4, 3}, 1), out({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(box(in, 3, 1, R"(
    %s = scan %t [axis = 1, kind = "sum", reverse = 1]
    store_view %o, %s, %z, %z [axes = [0, 1]])",
                  {out.view()}, "%o: view<4x4xf32, out>")
                  .clean());
  EXPECT_EQ(out.storage[0], 23);
  EXPECT_EQ(out.storage[1], 12);
  EXPECT_EQ(out.storage[2], -1);
}

TEST(EvalAbsent, ArgReduceAndReduceWithLeaveAbsentElementsOut) {
  HostTensor<f32> in({2, 3}, {-3, -1, -2, -5, -7, -4}), best({2}), with({2});
  HostTensor<i32> index({2});
  EXPECT_TRUE(
      run(R"(kernel @a tile (%i: view<2x3xf32, in>, %b: view<2xf32, out>, %n: view<2xi32, out>, %w: view<2xf32, out>) {
    %z = const [value = 0] : i32
    %off = const [value = -1] : i32
    %t = load_view %i, %z, %off [axes = [0, 1]] : tile<2x8xf32>
    %v, %x = arg_reduce %t [axis = 1, kind = "max"]
    store_view %b, %v, %z [axes = [0]]
    store_view %n, %x, %z [axes = [0]]
    %m = reduce_with %t [axis = 1] : tile<2xf32> { (%p: f32, %q: f32)
      %c = mul %p, %q
      yield %c
    }
    store_view %w, %m, %z [axes = [0]]
  })",
          {in.view(), best.view(), index.view(), with.view()})
          .clean());
  EXPECT_THAT(best.storage, ElementsAre(-1, -4));
  EXPECT_THAT(index.storage, ElementsAre(2, 3));
  EXPECT_THAT(with.storage, ElementsAre(-6, -140));
}

constexpr const char* kDot = R"(
    %b = load_view %w, %z, %z [axes = [0, 1]] : tile<4x4xf32>
    %zero = const [value = 0.5] : tile<4x4xf32>
    %d = dot %t, %b, %zero
    store_view %o, %d, %z, %z [axes = [0, 1]])";

TEST(EvalAbsent, DotTakesZeroAlongKAndIsAbsentElsewhere) {
  HostTensor<f32> in = iota<f32>({3, 3}, 1), w({3, 2}, {1, 0, 0, 1, 1, 1}),
                  out({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(
      box(in, 0, 0, kDot, {w.view(), out.view()}, "%w: view<?x?xf32, in>, %o: view<4x4xf32, out>")
          .clean());
  EXPECT_THAT(out.storage, ElementsAre(4.5, 5.5, -1, -1, 10.5, 11.5, -1, -1, 16.5, 17.5, -1, -1, -1,
                                       -1, -1, -1));
}

TEST(EvalAbsent, DotOverAnEmptyContractionIsTheAccumulator) {
  // The whole k range is outside: rows and columns are still there.
  HostTensor<f32> in = iota<f32>({4, 3}, 1), w({0, 4}), out({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(
      box(in, 0, 3, kDot, {w.view(), out.view()}, "%w: view<?x?xf32, in>, %o: view<4x4xf32, out>")
          .clean());
  EXPECT_THAT(out.storage, Each(0.5));
}

TEST(EvalAbsent, DotWithAnOperandThatIsWhollyAbsent) {
  // Row 5 of a view that the tile does not run along does not exist: its products count as 0.
  HostTensor<f32> in = iota<f32>({1, 4, 4}, 1), w({4, 4}, std::vector<f32>(16, 1)),
                  out({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(
      run(R"(kernel @r tile (%i: view<?x?x?xf32, in>, %w: view<4x4xf32, in>, %o: view<4x4xf32, out>) {
    %z = const [value = 0] : i32
    %five = const [value = 5] : i32
    %t = load_view %i, %five, %z, %z [axes = [1, 2]] : tile<4x4xf32>
    %b = load_view %w, %z, %z [axes = [0, 1]] : tile<4x4xf32>
    %acc = const [value = 2.0] : tile<4x4xf32>
    %d = dot %t, %b, %acc
    store_view %o, %d, %z, %z [axes = [0, 1]]
  })",
          {in.view(), w.view(), out.view()})
          .clean());
  EXPECT_THAT(out.storage, Each(2));
}

/// Rows 5 .. 8 below 7, and columns -1 .. 2 from 0 on and inside the tensor.
TEST(EvalAbsent, CropDropsElementsAtOrBeyondTheEnd) {
  HostTensor<f32> in = iota<f32>({3, 3}, 1), out({4, 4}, std::vector<f32>(16, -1)), sums({4});
  const std::string body = R"(
    %five = const [value = 5] : i32
    %seven = const [value = 7] : i32
    %below = const [value = -1] : i32
    %rows = crop %t, %five, %seven [axis = 0] : tile<4x4xf32>
    %both = crop %rows, %below, %seven [axis = 1] : tile<4x4xf32>
    %sum = reduce %both [axis = 0, kind = "sum"]
    store_view %o, %both, %z, %z [axes = [0, 1]]
    store_view %s, %sum, %z [axes = [0]])";
  EXPECT_TRUE(
      box(in, 0, 0, body, {out.view(), sums.view()}, "%o: view<4x4xf32, out>, %s: view<4xf32, out>")
          .clean());
  EXPECT_THAT(out.storage, ElementsAre(-1, 2, 3, -1, -1, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(sums.storage, ElementsAre(0, 7, 9, 0));
}

TEST(EvalAbsent, ReshapeKeepsEdgesApart) {
  // [2, 2, 4] rows merged to [4, 4]: rows of the ragged first dimension are absent, the contraction
  // is not confused.
  HostTensor<f32> in = iota<f32>({1, 2, 3}, 1), w({4, 4}, std::vector<f32>(16, 1)),
                  out({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(
      run(R"(kernel @r tile (%i: view<?x?x?xf32, in>, %w: view<4x4xf32, in>, %o: view<4x4xf32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z, %z, %z [axes = [0, 1, 2]] : tile<2x2x4xf32>
    %f = reshape %t : tile<4x4xf32>
    %b = load_view %w, %z, %z [axes = [0, 1]] : tile<4x4xf32>
    %zero = const [value = 0.0] : tile<4x4xf32>
    %d = dot %f, %b, %zero
    store_view %o, %d, %z, %z [axes = [0, 1]]
  })",
          {in.view(), w.view(), out.view()})
          .clean());
  EXPECT_THAT(out.storage, ElementsAre(6, 6, 6, 6, 15, 15, 15, 15, -1, -1, -1, -1, -1, -1, -1, -1));
}

TEST(EvalAbsent, ReshapeThatSplitsAnEdge) {
  HostTensor<f32> in = iota<f32>({5}, 1), out({4, 2}, std::vector<f32>(8, -1)),
                  back({8}, std::vector<f32>(8, -1));
  EXPECT_TRUE(
      run(R"(kernel @r tile (%i: view<?xf32, in>, %o: view<4x2xf32, out>, %b: view<8xf32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z [axes = [0]] : tile<8xf32>
    %f = reshape %t : tile<4x2xf32>
    store_view %o, %f, %z, %z [axes = [0, 1]]
    %g = reshape %f : tile<8xf32>
    store_view %b, %g, %z [axes = [0]]
  })",
          {in.view(), out.view(), back.view()})
          .clean());
  EXPECT_THAT(out.storage, ElementsAre(1, 2, 3, 4, 5, -1, -1, -1));
  EXPECT_THAT(back.storage, ElementsAre(1, 2, 3, 4, 5, -1, -1, -1));
}

TEST(EvalAbsent, PermuteBroadcastAndExpandCarryEdges) {
  HostTensor<f32> in = iota<f32>({3, 2}, 1), out({4, 4}, std::vector<f32>(16, -1)),
                  wide({4, 4}, std::vector<f32>(16, -1));
  EXPECT_TRUE(box(in, 0, 0, R"(
    %p = permute %t [order = [1, 0]]
    store_view %o, %p, %z, %z [axes = [0, 1]]
    %s = reduce %t [axis = 1, kind = "sum"]
    %e = expand_dims %s [axis = 0]
    %b = broadcast %e : tile<4x4xf32>
    store_view %w, %b, %z, %z [axes = [0, 1]])",
                  {out.view(), wide.view()}, "%o: view<4x4xf32, out>, %w: view<4x4xf32, out>")
                  .clean());
  EXPECT_THAT(out.storage, ElementsAre(1, 3, 5, -1, 2, 4, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(wide.storage, ElementsAre(3, 7, 11, -1, 3, 7, 11, -1, 3, 7, 11, -1, 3, 7, 11, -1));
}

TEST(EvalAbsent, AnElementOutsideIsZeroUnlessFilled) {
  // A page table with one entry. Where it has none the page is 0, or what fill_absent says: a page
  // that does not exist.
  HostTensor<i32> table({1}, {2});
  HostTensor<f32> pages = iota<f32>({3, 4}), out({4}, std::vector<f32>(4, -1));
  const std::string
      begin =
          R"(kernel @p tile (%t: view<?xi32, in>, %p: view<?x?xf32, in>, %o: view<4xf32, out>, %n: i32) {
    %z = const [value = 0] : i32
    %none = const [value = -1] : i32
    %e = load_view %t, %n [axes = []] : i32
    )",
      end = R"(
    %x = load_view %p, %page, %z [axes = [1]] : tile<4xf32>
    store_view %o, %x, %z [axes = [0]]
  })";
  const std::string filled = begin + "%page = fill_absent %e, %none : i32" + end,
                    plain = begin + "%page = add %e, %z" + end;
  EXPECT_TRUE(run(filled, {table.view(), pages.view(), out.view(), int_arg(1)}).clean());
  EXPECT_THAT(out.storage, Each(-1));
  EXPECT_TRUE(run(filled, {table.view(), pages.view(), out.view(), int_arg(0)}).clean());
  EXPECT_THAT(out.storage, ElementsAre(8, 9, 10, 11));
  EXPECT_TRUE(run(plain, {table.view(), pages.view(), out.view(), int_arg(0)}).clean());
  // The 0 is an index: that is reported.
  const EvalReport report = run(plain, {table.view(), pages.view(), out.view(), int_arg(1)});
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, FindingKind::OutsideRead);
  EXPECT_THAT(out.storage, ElementsAre(0, 1, 2, 3));
}

TEST(EvalAbsent, AbsentPointersAreNotFollowed) {
  HostTensor<i32> index({3}, {0, 2, 1});
  HostTensor<f32> x = iota<f32>({3}, 5), out({4}, std::vector<f32>(4, -1));
  EXPECT_TRUE(run(R"(kernel @g tile (%n: view<?xi32, in>, %x: ptr<f32>, %o: ptr<f32>) {
    %z = const [value = 0] : i32
    %i = load_view %n, %z [axes = [0]] : tile<4xi32>
    %p = addptr %x, %i
    %v = load %p
    %r = arange [start = 0] : tile<4xi32>
    %q = addptr %o, %r
    store %q, %v
  })",
                  {index.view(), x.pointer(), out.pointer()})
                  .clean());
  EXPECT_THAT(out.storage, ElementsAre(5, 7, 6, -1));
}

TEST(EvalAbsent, AssumeIgnoresAbsentElements) {
  HostTensor<f32> in = iota<f32>({2, 2}, 1);
  const std::string body = R"(%one = const [value = 1.0] : f32
    %holds = cmp %t, %one [pred = "ge"]
    assume %holds)";
  EXPECT_THAT(box(in, 1, 1, body, {int_arg(0)}, "%unused: i32").findings, IsEmpty());
}

}  // namespace
}  // namespace tegula::ir::eval_absent_test
