// Hand values of every op on tiles: creation, shape, memory, reductions, dot, control flow.
#include <cmath>
#include <cstring>
#include <limits>

#include "tegula/error.h"
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_tile_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr f32 kInf = std::numeric_limits<f32>::infinity();
constexpr f32 kNan = std::numeric_limits<f32>::quiet_NaN();

TEST(EvalTile, ProgramIdsCoverTheGridAndSeeItsExtent) {
  HostTensor<i32> out({2, 3, 2});
  run_clean(R"(kernel @ids tile (%o: view<?x?x?xi32, out>) {
    launch { %gx = view_dim %o [axis = 2] : i32  %gy = view_dim %o [axis = 1] : i32  %gz = view_dim %o [axis = 0] : i32
             yield %gx, %gy, %gz }
    %x = program_id [axis = 0] : i32
    %y = program_id [axis = 1] : i32
    %z = program_id [axis = 2] : i32
    %nx = num_programs [axis = 0] : i32
    %ny = num_programs [axis = 1] : i32
    %zy = mul %z, %ny
    %yy = add %zy, %y
    %yx = mul %yy, %nx
    %n = add %yx, %x
    store_view %o, %n, %z, %y, %x [axes = []]
  })",
            {out.view()});
  EXPECT_THAT(out.storage, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(EvalTile, LaunchGridIsEvaluatedOnTheHost) {
  HostTensor<f32> x({1000});
  const Kernel k = parse(R"(kernel @g tile (%x: view<?xf32, in>, %n: i32) {
    launch { %d = view_dim %x [axis = 0] : i32  %c = const [value = 127] : i32  %b = const [value = 128] : i32
             %s = add %d, %c  %g = div %s, %b  %one = const [value = 1] : i32  yield %g, %n, %one }
  })");
  EXPECT_THAT(evaluate_launch(k, std::vector<EvalArg>{x.view(), int_arg(5)}), ElementsAre(8, 5, 1));
}

TEST(EvalTile, FlattenedParametersTakeTheirPartOfAnArgument) {
  HostTensor<f32> x({7, 9});
  const Kernel k = parse(
      R"(kernel @g simt (%n: i32 [axis = 1, arg = 0, component = "dim"], %s: i64 [axis = 0, arg = 0, component = "stride"],
                                            %v: i32 [arg = 1, component = "value"]) {
    launch { %w = cast %s : i32  yield %n, %w, %v }
  })");
  EXPECT_THAT(evaluate_launch(k, std::vector<EvalArg>{x.view(), int_arg(3)}), ElementsAre(9, 9, 3));
}

TEST(EvalTile, CreateAndShape) {
  HostTensor<i32> out({24});
  run_clean(R"(kernel @shape tile (%o: view<24xi32, out>) {
    %c0 = const [value = 0] : i32
    %r = arange [start = 10] : tile<3xi32>
    %e = expand_dims %r [axis = 0]
    %b = broadcast %e : tile<2x3xi32>
    %c = arange [start = 0] : tile<2xi32>
    %ce = expand_dims %c [axis = 1]
    %cb = broadcast %ce : tile<2x3xi32>
    %h = const [value = 100] : i32
    %hs = splat %h : tile<2x3xi32>
    %m = mul %cb, %hs
    %s = add %m, %b
    %t = permute %s [order = [1, 0]]
    %f = reshape %t : tile<6xi32>
    store_view %o, %f, %c0 [axes = [0]]
  })",
            {out.view()});
  EXPECT_THAT(std::vector<i32>(out.storage.begin(), out.storage.begin() + 6),
              ElementsAre(10, 110, 11, 111, 12, 112));
}

TEST(EvalTile, PermuteOfThreeDimensions) {
  HostTensor<i32> in = iota<i32>({2, 3, 4}), out({4, 2, 3});
  run_clean(R"(kernel @p tile (%i: view<2x3x4xi32, in>, %o: view<4x2x3xi32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z, %z, %z [axes = [0, 1, 2]] : tile<2x3x4xi32>
    %p = permute %t [order = [2, 0, 1]]
    store_view %o, %p, %z, %z, %z [axes = [0, 1, 2]]
  })",
            {in.view(), out.view()});
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 2; ++b)
      for (int c = 0; c < 3; ++c)
        EXPECT_EQ(out.storage[static_cast<std::size_t>((a * 2 + b) * 3 + c)], (b * 3 + c) * 4 + a);
}

TEST(EvalTile, ViewsWithNegativeAndZeroStrides) {
  HostTensor<f32> in = iota<f32>({6}), out({2, 3});
  TensorArg reversed{in.storage.data() + 5, {2, 3}, {0, -2}, DType::f32};
  run_clean(R"(kernel @v tile (%i: view<?x?xf32, in>, %o: view<?x?xf32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z, %z [axes = [0, 1]] : tile<2x3xf32>
    store_view %o, %t, %z, %z [axes = [0, 1]]
  })",
            {reversed, out.view()});
  EXPECT_THAT(out.storage, ElementsAre(5, 3, 1, 5, 3, 1));
}

TEST(EvalTile, ViewOfFourDimensionsLoadedAlongTwo) {
  HostTensor<f32> in = iota<f32>({2, 3, 4, 5}), out({5, 4});
  run_clean(R"(kernel @v tile (%i: view<?x?x?x?xf32, in>, %o: view<5x4xf32, out>) {
    %z = const [value = 0] : i32
    %one = const [value = 1] : i32
    %two = const [value = 2] : i32
    %t = load_view %i, %one, %two, %z, %z [axes = [3, 2]] : tile<5x4xf32>
    store_view %o, %t, %z, %z [axes = [0, 1]]
  })",
            {in.view(), out.view()});
  EXPECT_EQ(out.storage[0], 100);
  EXPECT_EQ(out.storage[1], 105);  // the tile's second dimension runs along the view's third
  EXPECT_EQ(out.storage[4], 101);
}

TEST(EvalTile, ViewFactsOfTheArgument) {
  HostTensor<f32> in({4, 8}), out({3});
  run_clean(R"(kernel @v tile (%i: view<?x?xf32, in>, %o: view<?xi64, out>) {
    %z = const [value = 0] : i32
    %d = view_dim %i [axis = 1] : i64
    store_view %o, %d, %z [axes = []]
    %s = view_stride %i [axis = 0] : i64
    %one = const [value = 1] : i32
    store_view %o, %s, %one [axes = []]
  })",
            {in.view(), TensorArg{out.storage.data(), {1}, {1}, DType::i64}});
  std::int64_t first = 0;
  std::memcpy(&first, out.storage.data(), sizeof first);
  EXPECT_EQ(first, 8);
}

TEST(EvalTile, RawPointersLoadMaskFillAndStore) {
  HostTensor<f32> in = iota<f32>({8}, 1), out({8});
  run_clean(R"(kernel @p tile (%i: ptr<f32>, %o: ptr<f32>, %n: i32) {
    %r = arange [start = 0] : tile<8xi32>
    %pi = addptr %i, %r
    %m = cmp %r, %n [pred = "lt"]
    %fill = const [value = -1.0] : f32
    %x = load %pi, %m, %fill
    %po = addptr %o, %r
    store %po, %x
    %five = const [value = 5] : i32
    %low = cmp %r, %five [pred = "ge"]
    %q = const [value = 9.0] : tile<8xf32>
    store %po, %q, %low
  })",
            {in.pointer(), out.pointer(), int_arg(4)});
  EXPECT_THAT(out.storage, ElementsAre(1, 2, 3, 4, -1, 9, 9, 9));
}

TEST(EvalTile, PointersOfViewsAndPointerTables) {
  HostTensor<f32> in = iota<f32>({4}, 1), out({1});
  HostTensor<i64> table({1});
  table.storage[0] = reinterpret_cast<std::intptr_t>(
      in.storage.data() + 2);  // a host address, as a table of pointers has
  run_clean(R"(kernel @p tile (%i: view<4xf32, in>, %t: ptr<i64>, %o: ptr<f32>) {
    %p = view_ptr %i
    %one = const [value = 1] : i32
    %q = addptr %p, %one
    %x = load %q
    %a = load %t
    %r = bitcast %a : ptr<f32>
    %y = load %r
    %s = add %x, %y
    store %o, %s
  })",
            {in.view(), table.pointer(), out.pointer()});
  EXPECT_EQ(out.storage[0], 5);
}

TEST(EvalTile, AddressesAreAlignedAsOnTheHost) {
  HostTensor<f32> x({64});
  HostTensor<i64> out({1});
  const auto* base = x.storage.data() + 3;
  run_clean(
      R"(kernel @p tile (%x: ptr<f32>, %o: ptr<i64>) {
    %a = bitcast %x : i64
    %m = const [value = 4095] : i64
    %l = and %a, %m
    store %o, %l
  })",
      {PointerArg{x.storage.data() + 3, x.storage.data(), x.storage.data() + 64}, out.pointer()});
  EXPECT_EQ(out.storage[0], static_cast<i64>(reinterpret_cast<std::uintptr_t>(base) & 4095));
}

TEST(EvalTile, AtomicsGiveTheOldValuesInOrder) {
  HostTensor<i32> counters({2}), old({4});
  HostTensor<i32> index({4}, {0, 1, 0, 0});
  run_clean(R"(kernel @a tile (%c: ptr<i32>, %i: ptr<i32>, %o: ptr<i32>) {
    %r = arange [start = 0] : tile<4xi32>
    %pi = addptr %i, %r
    %x = load %pi
    %pc = addptr %c, %x
    %one = const [value = 1] : tile<4xi32>
    %was = atomic_rmw %pc, %one [kind = "add", sem = "relaxed", scope = "gpu"]
    %po = addptr %o, %r
    store %po, %was
  })",
            {counters.pointer(), index.pointer(), old.pointer()});
  EXPECT_THAT(counters.storage, ElementsAre(3, 1));
  EXPECT_THAT(old.storage, ElementsAre(0, 0, 1, 2));
}

TEST(EvalTile, AtomicsOnViewsGiveOldValuesAndLeaveTheOutsideAlone) {
  HostTensor<i32> at({3, 2}, {1, 2, 3, 4, 5, 6}), old({4}, {-1, -1, -1, -1});
  run_clean(R"(kernel @a tile (%x: view<?x?xi32, inout>, %o: view<?xi32, out>) {
    %one = const [value = 1] : i32
    %zero = const [value = 0] : i32
    %tens = const [value = 10] : tile<4xi32>
    %was = atomic_view %x, %tens, %one, %one [axes = [0], kind = "add"] : tile<4xi32>
    store_view %o, %was, %zero [axes = [0]]
    %threes = const [value = 3] : tile<2x2xi32>
    store_view %x, %threes, %zero, %zero [axes = [0, 1], kind = "max"]
  })",
            {at.view(), old.view()});
  EXPECT_THAT(at.storage, ElementsAre(3, 3, 3, 14, 5, 16));
  EXPECT_THAT(old.storage, ElementsAre(4, 6, -1, -1));
}

TEST(EvalTile, AtomicsOfManyProgramsComeInProgramOrder) {
  HostTensor<i32> counter({1}), old({4096});
  EvalOptions threads;
  threads.threads = 2;  // not taken: the old values must be the same in every run
  run_clean(R"(kernel @a tile (%c: ptr<i32>, %o: view<?xi32, out>) {
    launch { %n = view_dim %o [axis = 0] : i32  %l = const [value = 1] : i32  yield %n, %l, %l }
    %i = program_id [axis = 0] : i32
    %one = const [value = 1] : i32
    %was = atomic_rmw %c, %one [kind = "add"]
    store_view %o, %was, %i [axes = []]
  })",
            {counter.pointer(), old.view()}, threads);
  EXPECT_EQ(counter.storage[0], 4096);
  EXPECT_EQ(old.storage, iota<i32>({4096}).storage);
}

template <class T>
T atomic(const std::string& kind, T old, T value) {
  HostTensor<T> at({1}, {old}), in({1}, {value});
  const std::string t(name(dtype_of<T>));
  run_clean("kernel @a tile (%p: ptr<" + t + ">, %q: ptr<" + t +
                ">) { %v = load %q  %o = atomic_rmw %p, %v [kind = \"" + kind + "\"] }",
            {at.pointer(), in.pointer()});
  return at.storage[0];
}

TEST(EvalTile, AtomicKinds) {
  EXPECT_EQ(atomic<i32>("add", 2147483647, 1), -2147483648);
  EXPECT_EQ(static_cast<float>(atomic<bf16>("add", bf16(256), bf16(1))), 256);
  EXPECT_EQ(atomic<f32>("max", -0.0f, 0.0f), 0.0f);
  EXPECT_EQ(atomic<u32>("max", 1, 0xffffffffu), 0xffffffffu);
  EXPECT_EQ(atomic<i32>("min", 1, -1), -1);
  EXPECT_EQ(atomic<u32>("and", 12, 10), 8u);
  EXPECT_EQ(atomic<u32>("or", 12, 10), 14u);
  EXPECT_EQ(atomic<u32>("xor", 12, 10), 6u);
  EXPECT_EQ(atomic<i64>("xchg", 12, 10), 10);
}

/// Reduces or scans a 2x3 tile along `axis`.
template <class T>
std::vector<double> fold(const std::string& op, std::vector<T> values, const std::string& attrs,
                         Ints out_shape) {
  HostTensor<T> in({2, 3}, std::move(values)), out(out_shape);
  const std::string t(name(dtype_of<T>));
  std::string dims, offsets, axes;
  for (std::size_t d = 0; d < out_shape.size(); ++d) {
    dims += std::to_string(out_shape[d]) + "x";
    offsets += ", %z";
    axes += (d == 0 ? "" : ", ") + std::to_string(d);
  }
  run_clean("kernel @f tile (%i: view<2x3x" + t + ", in>, %o: view<" + dims + t +
                ", out>) { %z = const [value = 0] : i32 " +
                "%x = load_view %i, %z, %z [axes = [0, 1]] : tile<2x3x" + t + "> %y = " + op +
                " %x [" + attrs + "] " + "store_view %o, %y" + offsets + " [axes = [" + axes +
                "]] }",
            {in.view(), out.view()});
  return out.values();
}

TEST(EvalTile, ReduceKinds) {
  EXPECT_THAT(fold<f32>("reduce", {1, 2, 3, 4, 5, 6}, "axis = 1, kind = \"sum\"", {2}),
              ElementsAre(6, 15));
  EXPECT_THAT(fold<f32>("reduce", {1, 2, 3, 4, 5, 6}, "axis = 0, kind = \"sum\"", {3}),
              ElementsAre(5, 7, 9));
  EXPECT_THAT(fold<i8>("reduce", {100, 100, 0, 1, 2, 3}, "axis = 1, kind = \"sum\"", {2}),
              ElementsAre(-56, 6));
  EXPECT_THAT(fold<u8>("reduce", {16, 16, 1, 1, 2, 3}, "axis = 1, kind = \"prod\"", {2}),
              ElementsAre(0, 6));
  EXPECT_THAT(fold<f32>("reduce", {1, kNan, 3, -kInf, -1, -2}, "axis = 1, kind = \"max\"", {2}),
              ElementsAre(3, -1));
  EXPECT_THAT(fold<i32>("reduce", {1, -7, 3, 4, 5, 6}, "axis = 1, kind = \"min\"", {2}),
              ElementsAre(-7, 4));
  EXPECT_THAT(fold<u32>("reduce", {1, 4294967295u, 3, 4, 5, 6}, "axis = 1, kind = \"max\"", {2}),
              ElementsAre(4294967295.0, 6));
  EXPECT_THAT(fold<i32>("reduce", {7, 3, 5, 8, 4, 2}, "axis = 1, kind = \"and\"", {2}),
              ElementsAre(1, 0));
  EXPECT_THAT(fold<i32>("reduce", {7, 3, 5, 8, 4, 2}, "axis = 1, kind = \"or\"", {2}),
              ElementsAre(7, 14));
  EXPECT_THAT(fold<i32>("reduce", {7, 3, 5, 8, 4, 2}, "axis = 1, kind = \"xor\"", {2}),
              ElementsAre(1, 14));
  const auto nan = fold<f32>("reduce", {1, kNan, 3, 4, 5, 6},
                             "axis = 1, kind = \"min\", nan = \"propagate\"", {2});
  EXPECT_TRUE(std::isnan(nan[0]));
  EXPECT_EQ(nan[1], 4);
}

TEST(EvalTile, SumIsRoundedOnce) {
  // In bf16 steps 256 + 1 + 1 would stay 256.
  EXPECT_THAT(fold<bf16>("reduce", {bf16(256), bf16(1), bf16(1), bf16(0), bf16(0), bf16(0)},
                         "axis = 1, kind = \"sum\"", {2}),
              ElementsAre(258, 0));
}

TEST(EvalTile, ScanDirections) {
  const std::vector<i32> v{1, 2, 3, 4, 5, 6};
  EXPECT_THAT(fold<i32>("scan", v, "axis = 1, kind = \"sum\"", {2, 3}),
              ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(fold<i32>("scan", v, "axis = 0, kind = \"sum\"", {2, 3}),
              ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(fold<i32>("scan", v, "axis = 1, kind = \"sum\", reverse = 1", {2, 3}),
              ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(fold<i32>("scan", v, "axis = 1, kind = \"sum\", exclusive = 1", {2, 3}),
              ElementsAre(0, 1, 3, 0, 4, 9));
  EXPECT_THAT(fold<i32>("scan", v, "axis = 1, kind = \"prod\", exclusive = 1, reverse = 1", {2, 3}),
              ElementsAre(6, 3, 1, 30, 6, 1));
  EXPECT_THAT(fold<i32>("scan", {3, 1, 2, 1, 5, 4}, "axis = 1, kind = \"max\"", {2, 3}),
              ElementsAre(3, 3, 3, 1, 5, 5));
}

TEST(EvalTile, ArgReduceTiesAndNan) {
  HostTensor<f32> in({3, 3}, {1, 3, 3, kNan, -kInf, -kInf, 2, 1, 0}), value({3});
  HostTensor<i32> index({3});
  const auto kernel = [](const char* kind) {
    return std::string(
               R"(kernel @a tile (%i: view<3x3xf32, in>, %v: view<3xf32, out>, %x: view<3xi32, out>) {
      %z = const [value = 0] : i32
      %t = load_view %i, %z, %z [axes = [0, 1]] : tile<3x3xf32>
      %b, %n = arg_reduce %t [axis = 1, kind = ")") +
           kind + R"("]
      store_view %v, %b, %z [axes = [0]]
      store_view %x, %n, %z [axes = [0]]
    })";
  };
  run_clean(kernel("max"), {in.view(), value.view(), index.view()});
  EXPECT_THAT(index.storage, ElementsAre(1, 1, 0));
  EXPECT_THAT(value.storage, ElementsAre(3, -kInf, 2));
  run_clean(kernel("min"), {in.view(), value.view(), index.view()});
  EXPECT_THAT(index.storage, ElementsAre(0, 1, 2));
}

// The pair of smallest value and its tag; the second region has a branch, so it is run lane by
// lane.
constexpr const char* kReduceWith =
    R"(kernel @r tile (%i: view<2x4xf32, in>, %v: view<2xf32, out>, %x: view<2xi32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z, %z [axes = [0, 1]] : tile<2x4xf32>
    %r = arange [start = 0] : tile<4xi32>
    %e = expand_dims %r [axis = 0]
    %n = broadcast %e : tile<2x4xi32>
    %a, %b = reduce_with %t, %n [axis = 1] : tile<2xf32>, tile<2xi32> { (%v0: f32, %n0: i32, %v1: f32, %n1: i32)
      %c = cmp %v0, %v1 [pred = "le"]
      COMBINE
      yield %vv, %nn
    }
    store_view %v, %a, %z [axes = [0]]
    store_view %x, %b, %z [axes = [0]]
  })";

TEST(EvalTile, ReduceWithRegion) {
  for (const std::string combine :
       {"%vv = select %c, %v0, %v1  %nn = select %c, %n0, %n1",
        "%vv, %nn = if %c : f32, i32 { yield %v0, %n0 } { yield %v1, %n1 }"}) {
    std::string text = kReduceWith;
    text.replace(text.find("COMBINE"), 7, combine);
    HostTensor<f32> in({2, 4}, {4, 2, 3, 2, 1, 1, 0, 5}), value({2});
    HostTensor<i32> index({2});
    run_clean(text, {in.view(), value.view(), index.view()});
    EXPECT_THAT(value.storage, ElementsAre(2, 0));
    EXPECT_THAT(index.storage, ElementsAre(1, 2));
  }
}

template <class A, class C>
std::vector<double> dot22(std::vector<A> a, std::vector<A> b, std::vector<C> acc,
                          const std::string& attrs = "") {
  HostTensor<A> ta({2, 2}, std::move(a)), tb({2, 2}, std::move(b));
  HostTensor<C> tc({2, 2}, std::move(acc));
  const std::string ta_name(name(dtype_of<A>)), tc_name(name(dtype_of<C>));
  run_clean("kernel @d tile (%a: view<2x2x" + ta_name + ", in>, %b: view<2x2x" + ta_name +
                ", in>, %c: view<2x2x" + tc_name +
                ", inout>) { %z = const [value = 0] : i32 %x = load_view %a, %z, %z [axes = [0, "
                "1]] : tile<2x2x" +
                ta_name + "> %y = load_view %b, %z, %z [axes = [0, 1]] : tile<2x2x" + ta_name +
                "> %w = load_view %c, %z, %z [axes = [0, 1]] : tile<2x2x" + tc_name +
                "> %d = dot %x, %y, %w " + attrs + " store_view %c, %d, %z, %z [axes = [0, 1]] }",
            {ta.view(), tb.view(), tc.view()});
  return tc.values();
}

TEST(EvalTile, DotTypes) {
  EXPECT_THAT((dot22<f32, f32>({1, 2, 3, 4}, {5, 6, 7, 8}, {1, 0, 0, 0})),
              ElementsAre(20, 22, 43, 50));
  EXPECT_THAT((dot22<bf16, f32>({bf16(256), bf16(1), bf16(0), bf16(0)},
                                {bf16(1), bf16(0), bf16(1), bf16(0)}, {0, 0, 0, 0})),
              ElementsAre(257, 0, 0, 0));
  EXPECT_THAT((dot22<f16, f16>({f16(2048), f16(1), f16(0), f16(0)},
                               {f16(1), f16(0), f16(1), f16(0)}, {f16(0), f16(0), f16(0), f16(0)})),
              ElementsAre(2048, 0, 0, 0));  // one rounding, to f16: a tie
  EXPECT_THAT((dot22<i8, i32>({-128, 127, 1, 0}, {-128, 1, 127, 1}, {0, 0, 0, 7})),
              ElementsAre(16384 + 16129, -1, -128, 8));
  EXPECT_THAT((dot22<i8, i8>({16, 0, 0, 0}, {16, 0, 0, 0}, {0, 0, 0, 0})), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT((dot22<f64, f64>({1, 2, 3, 4}, {5, 6, 7, 8}, {0, 0, 0, 0})),
              ElementsAre(19, 22, 43, 50));
}

TEST(EvalTile, DotInTf32RoundsItsOperands) {
  const auto product = [](f32 x, const std::string& attrs) {
    return dot22<f32, f32>({x, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 0}, attrs)[0];
  };
  const f32 step = 0x1p-10f;
  EXPECT_EQ(product(1 + step / 4, ""), 1 + step / 4);
  const std::string tf32 = "[precision = \"tf32\"]";
  EXPECT_EQ(product(1 + step / 4, tf32), 1);
  EXPECT_EQ(product(1 + step / 2, tf32), 1);  // ties go to even
  EXPECT_EQ(product(1 + step * 3 / 4, tf32), 1 + step);
  EXPECT_EQ(product(1 + step * 3 / 2, tf32), 1 + 2 * step);
  EXPECT_EQ(product(-(1 + step * 3 / 4), tf32), -(1 + step));
}

TEST(EvalTile, DotOfOddSizes) {
  // 1x7 times 7x3, every length but the unrolled four.
  HostTensor<f32> a = iota<f32>({1, 7}, 1), b = iota<f32>({7, 3}, 1), c({1, 3});
  run_clean(
      R"(kernel @d tile (%a: view<1x7xf32, in>, %b: view<7x3xf32, in>, %c: view<1x3xf32, out>) {
    %z = const [value = 0] : i32
    %x = load_view %a, %z, %z [axes = [0, 1]] : tile<1x7xf32>
    %y = load_view %b, %z, %z [axes = [0, 1]] : tile<7x3xf32>
    %w = const [value = 0.0] : tile<1x3xf32>
    %d = dot %x, %y, %w
    store_view %c, %d, %z, %z [axes = [0, 1]]
  })",
      {a.view(), b.view(), c.view()});
  EXPECT_THAT(c.storage, ElementsAre(364, 392, 420));
}

TEST(EvalTile, ForCarriesSwapAndZeroTrips) {
  for (const auto& [trips, want] : {std::pair(0, std::pair(1, 2)), {1, {2, 1}}, {3, {2, 1}}}) {
    HostTensor<i32> out({3});
    run_clean(R"(kernel @f tile (%n: i32, %o: ptr<i32>) {
      %lo = const [value = 5] : i32
      %hi = add %lo, %n
      %one = const [value = 1] : i32
      %two = const [value = 2] : i32
      %z = const [value = 0] : i32
      %a, %b, %s = for %lo, %hi, %one, %one, %two, %z : i32, i32, i32 { (%i: i32, %p: i32, %q: i32, %t: i32)
        %u = add %t, %i
        yield %q, %p, %u
      }
      store %o, %a
      %o1 = addptr %o, %one
      store %o1, %b
      %o2 = addptr %o, %two
      store %o2, %s
      pin
    })",
              {int_arg(trips), out.pointer()});
    EXPECT_EQ(out.storage[0], want.first);
    EXPECT_EQ(out.storage[1], want.second);
    EXPECT_EQ(out.storage[2], trips * 5 + trips * (trips - 1) / 2);
  }
}

TEST(EvalTile, WhileAndIf) {
  HostTensor<i32> out({1});
  run_clean(R"(kernel @collatz tile (%n: i32, %o: ptr<i32>) {
    %z = const [value = 0] : i32
    %one = const [value = 1] : i32
    %two = const [value = 2] : i32
    %three = const [value = 3] : i32
    %v, %steps = while %n, %z : i32, i32 { (%x: i32, %k: i32)
      %c = cmp %x, %one [pred = "gt"]
      yield %c
    } { (%x2: i32, %k2: i32)
      %odd = rem %x2, %two
      %is = cmp %odd, %one [pred = "eq"]
      %next = if %is : i32 {
        %m = mul %x2, %three
        %m1 = add %m, %one
        yield %m1
      } {
        %h = div %x2, %two
        yield %h
      }
      %k3 = add %k2, %one
      yield %next, %k3
    }
    store %o, %steps
  })",
            {int_arg(27), out.pointer()});
  EXPECT_EQ(out.storage[0], 111);
}

TEST(EvalTile, EndlessLoopsAndBadStepsAreErrors) {
  EvalOptions few;
  few.loop_limit = 1000;
  EXPECT_THROW(run(R"(kernel @w tile () {
    while { %t = const [value = 1] : i1  yield %t } { yield }
  })",
                   {}, few),
               ProgramError);
  // It changes, and does not come to its end.
  EXPECT_THROW(run(R"(kernel @c tile () {
    %z = const [value = 0] : i32
    %one = const [value = 1] : i32
    %r = while %z : i32 { (%a: i32) %go = cmp %a, %z [pred = "ge"]  yield %go } { (%b: i32)
      %n = add %b, %one
      %m = max %n, %z
      yield %m
    }
  })",
                   {}, few),
               ProgramError);
  const EvalReport stuck = run(R"(kernel @f tile (%n: i32) {
    %z = const [value = 0] : i32
    %hi = const [value = 4] : i32
    for %z, %hi, %n { (%i: i32) yield }
  })",
                               {int_arg(0)});
  EXPECT_THAT(texts(stuck), testing::ElementsAre(testing::HasSubstr("a loop advances by 0")));
}

TEST(EvalTile, ArgumentsMustFit) {
  HostTensor<f32> x({4});
  const std::string text = "kernel @k tile (%x: view<8xf32, in, strides=1>) { }";
  EXPECT_THROW(run(text, {}), InternalError);
  EXPECT_THROW(run(text, {int_arg(1)}), InternalError);
  EXPECT_THROW(run(text, {x.view()}), InternalError);
  EXPECT_THROW(run("kernel @k tile (%x: view<?xi32, in>) { }", {x.view()}), InternalError);
  EXPECT_THROW(run("kernel @k tile (%x: view<?x?xf32, in>) { }", {x.view()}), InternalError);
  EXPECT_THROW(run("kernel @k tile (%x: view<?xf32, in, dim_div=8>) { }", {x.view()}),
               InternalError);
  run_clean("kernel @k tile (%x: view<?xf32, in, strides=1, dim_div=4>) { }", {x.view()});
}

TEST(EvalTile, InlinePtxAndExpertOpsCannotRunHere) {
  EXPECT_THROW(run(R"(kernel @k tile () {
    %c = const [value = 0.0] : f32
    %d = asm_elementwise %c [text = "mov.b32 $0, $1;", constraints = "=f,f"] : f32
  })",
                   {}),
               CompileError);
  EXPECT_THROW(run("kernel @k tile () { %t = tid }", {}), InternalError);
}

TEST(EvalTile, MathOnTiles) {
  HostTensor<f32> in({3}, {0, 1, -1}), out({3});
  run_clean(R"(kernel @m tile (%i: view<3xf32, in>, %o: view<3xf32, out>) {
    %z = const [value = 0] : i32
    %t = load_view %i, %z [axes = [0]] : tile<3xf32>
    %e = exp %t
    store_view %o, %e, %z [axes = [0]]
  })",
            {in.view(), out.view()});
  EXPECT_THAT(out.storage,
              ElementsAre(1.0f, static_cast<f32>(std::exp(1.0)), static_cast<f32>(std::exp(-1.0))));
}

}  // namespace
}  // namespace tegula::ir::eval_tile_test
