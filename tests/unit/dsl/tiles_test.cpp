// Shapes, folds, scans, dot, views, pointers and control flow, by their results.
#include <gmock/gmock.h>

#include <sstream>

#include "run_on_host.h"

namespace tegula::tiles_test {
namespace {

using test::empty;
using test::host;
using test::kHost;
using testing::ElementsAre;
using testing::HasSubstr;
using Shape = std::vector<std::int64_t>;

void traced(const std::function<void()>& f) {
  kernel("k", [&f](Out<f32, 1>) { f(); }).trace(empty({4}));
}

/// Runs a body that fills z from a matrix [3, 4] holding 0 .. 11.
template <class R = f32, class F>
std::vector<R> from_matrix(std::int64_t size, F f) {
  const auto k = kernel("k", [f](In<f32, 2> x, Out<R, 1> z) {
    for (auto i : grid(z, 16)) z(i) = f(x, i);
  });
  const Tensor z = empty({size}, dtype_of<R>);
  test::run(k, Tensor::iota({3, 4}, DType::f32, kHost), z);
  return z.template to_vector<R>();
}

TEST(Shapes, FollowTheOperations) {
  traced([] {
    const Tile t = zeros<f32>(6, 4);
    EXPECT_EQ(expand(t, 0).shape(), (Shape{1, 6, 4}));
    EXPECT_EQ(expand(t, -1).shape(), (Shape{6, 4, 1}));
    EXPECT_EQ(t.expand(1).shape(), (Shape{6, 1, 4}));
    EXPECT_EQ(t.T().shape(), (Shape{4, 6}));
    EXPECT_EQ(trans(expand(t, 0)).shape(), (Shape{1, 4, 6}));
    EXPECT_EQ(reshape(t, {3, 8}).shape(), (Shape{3, 8}));
    EXPECT_EQ(permute(expand(t, 0), {2, 0, 1}).shape(), (Shape{4, 1, 6}));
    EXPECT_EQ(broadcast(arange(4), {6, 4}).shape(), (Shape{6, 4}));
    EXPECT_EQ((t + arange(4)).shape(), (Shape{6, 4})) << "leading dimensions are added";
    EXPECT_EQ((expand(arange(6), 1) * arange(4)).shape(), (Shape{6, 4}));
    EXPECT_EQ((t + 1).shape(), (Shape{6, 4}));
    EXPECT_EQ(full<f32>(1).shape(), Shape{});
    EXPECT_EQ(sum(t, 0).shape(), Shape{4});
    EXPECT_EQ(sum(t, -1).shape(), Shape{6});
    EXPECT_EQ(sum(t).shape(), Shape{});
    EXPECT_EQ(zeros<f32>(3, 5, 7).dim(-1), 7);
    EXPECT_EQ(cumsum(t, 1).shape(), (Shape{6, 4}));
    EXPECT_EQ(dot(t, t.T()).shape(), (Shape{6, 6}));
  });
}

TEST(Folds, AlongOneDimensionAndAll) {
  EXPECT_THAT(from_matrix(4,
                          [](auto x, auto) {
                            return reshape(broadcast(expand(sum(x(all, all), 0), 1), {4, 4}), {16});
                          }),
              ElementsAre(12, 12, 12, 12));
  EXPECT_THAT(from_matrix(1, [](auto x, auto) { return sum(x(all, all)); }), ElementsAre(66));
  EXPECT_THAT(from_matrix(1, [](auto x, auto) { return max(x(all, all)) - min(x(1, all)); }),
              ElementsAre(7));
  EXPECT_THAT(from_matrix(1, [](auto x, auto) { return prod(x(all, all) + 1); }),
              ElementsAre(479001600.0f));
  EXPECT_THAT(from_matrix<i32>(1, [](auto x, auto) { return where(any(x(all, all) > 10), 1, 0); }),
              ElementsAre(1));
  EXPECT_THAT(from_matrix<i32>(1, [](auto x, auto) { return where(all(x(all, all) > 0), 1, 0); }),
              ElementsAre(0));
  EXPECT_THAT(from_matrix<i32>(
                  1, [](auto x, auto) { return argmax(x(2, all), 0) * 10 + argmin(x(2, all), 0); }),
              ElementsAre(30));
}

TEST(Folds, AbsentElementsDoNotCount) {
  // The bucket of three rows is four: the product would be 0 and the minimum too, did the fourth
  // count.
  EXPECT_THAT(from_matrix(1, [](auto x, auto) { return prod(x(all, 1)); }), ElementsAre(1 * 5 * 9));
  EXPECT_THAT(from_matrix(1, [](auto x, auto) { return min(x(all, 2)); }), ElementsAre(2));
}

TEST(Folds, ByALambda) {
  EXPECT_THAT(from_matrix(1,
                          [](auto x, auto) {
                            return reduce(x(2, all), 0, [](Tile a, Tile b) { return max(a, b); });
                          }),
              ElementsAre(11));
  // The index of the largest remainder modulo 5, as a fold over pairs.
  EXPECT_THAT(from_matrix<i32>(1,
                               [](auto x, auto) {
                                 const Tile v = cast<i32>(x(1, all)) % 5;
                                 return reduce(std::array{v, arange(4)}, 0,
                                               [](std::array<Tile, 2> l, std::array<Tile, 2> r) {
                                                 const Tile left =
                                                     l[0] > r[0] || (l[0] == r[0] && l[1] < r[1]);
                                                 return std::array{where(left, l[0], r[0]),
                                                                   where(left, l[1], r[1])};
                                               })[1];
                               }),
              ElementsAre(0));
}

TEST(Scans, ForwardReverseExclusive) {
  const auto scan = [](auto f) {
    return from_matrix(4, [f](auto x, auto) { return f(x(1, slice(0, 16))); });
  };
  EXPECT_THAT(scan([](Tile t) { return cumsum(t, 0); }), ElementsAre(4, 9, 15, 22));
  EXPECT_THAT(scan([](Tile t) { return cumsum(t, 0, {.reverse = true}); }),
              ElementsAre(22, 18, 13, 7));
  EXPECT_THAT(scan([](Tile t) { return cumsum(t, 0, {.exclusive = true}); }),
              ElementsAre(0, 4, 9, 15));
  EXPECT_THAT(scan([](Tile t) { return cumprod(t, 0); }), ElementsAre(4, 20, 120, 840));
  EXPECT_THAT(scan([](Tile t) { return cummax(10 - t, 0); }), ElementsAre(6, 6, 6, 6));
}

// ---- views --------------------------------------------------------------------------------------
TEST(Views, SubscriptsOfEveryKind) {
  EXPECT_THAT(from_matrix(1, [](auto x, auto) { return x(2, 3); }), ElementsAre(11));
  EXPECT_THAT(from_matrix(3, [](auto x, auto i) { return x(i, 1); }), ElementsAre(1, 5, 9));
  EXPECT_THAT(from_matrix(2, [](auto x, auto i) { return x(i.shifted(1), 0); }), ElementsAre(4, 8));
  EXPECT_THAT(from_matrix(4, [](auto x, auto) { return x(1, slice(0, 16)); }),
              ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(from_matrix(3, [](auto x, auto) { return x(1, slice(1, 16)); }),
              ElementsAre(5, 6, 7));
  EXPECT_THAT(
      from_matrix(1, [](auto x, auto) { return x(x.dim(0) - 1, x.cols() - 1) + x.stride(0); }),
      ElementsAre(15));
}

/// Hints are on the accesses of that view alone, gathers included, and change no value.
TEST(Views, CacheHints) {
  const auto k = kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
    const auto once = x.with({.evict = Evict::first});
    for (auto i : grid(z, 4))
      z.with({.cache = Cache::cs})(i) = once(i) + x(i) + once(3 - i.indices());
  });
  const std::string text = k.trace(empty({4}), empty({4})).text();
  const auto count = [&](const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++n;
    return n;
  };
  EXPECT_EQ(count("evict = \"first\""), 2U) << text;
  EXPECT_EQ(count("cache = \"cs\""), 1U) << text;
  const Tensor z = empty({4});
  test::run(k, Tensor::iota({4}, DType::f32, kHost), z);
  EXPECT_THAT(z.to_vector<f32>(), ElementsAre(3, 4, 5, 6));
}

TEST(Views, IntegerTilesGather) {
  EXPECT_THAT(from_matrix(3, [](auto x, auto i) { return x(i.indices(), 2 - i.indices()); }),
              ElementsAre(2, 5, 8));
  EXPECT_THAT(from_matrix(4, [](auto x, auto i) { return x(1, 3 - i.indices()); }),
              ElementsAre(7, 6, 5, 4));
  EXPECT_THAT(from_matrix(4, [](auto x, auto i) { return x(0, i.indices() + 2); }),
              ElementsAre(2, 3, 0, 0))
      << "outside reads 0";
}

TEST(Views, ScatterAndAtomicAdd) {
  const auto histogram =
      kernel("histogram", [](In<i32, 1> x, InOut<i32, 1> count, InOut<i32, 1> seen) {
        for (auto i : grid(x, 4)) {
          atomic_add(count(x(i)), 1);
          seen(x(i)) = 1;
          atomic_add(count(slice(3, 2)), 100);
        }
      });
  const Tensor x = Tensor::from(std::vector<i32>{1, 0, 1, 1, 9, 2}, kHost);
  const Tensor count = Tensor::zeros({4}, DType::i32, kHost),
               seen = Tensor::zeros({4}, DType::i32, kHost);
  const auto program = histogram.trace(x, count, seen).text();
  EXPECT_THAT(program, HasSubstr("atomic_rmw"));
  std::vector<ir::EvalArg> args;
  for (const Tensor& t : {x, count, seen})
    args.push_back(ir::TensorArg{t.data(), {t.shape()[0]}, {1}, DType::i32});
  ir::evaluate(histogram.trace(x, count, seen).kernel(),
               args);  // two programs set seen[1]: a race, of equal values
  EXPECT_THAT(count.to_vector<i32>(), ElementsAre(1, 3, 1, 200))
      << "9 is outside, and so is the fifth element of the slice";
  EXPECT_THAT(seen.to_vector<i32>(), ElementsAre(1, 1, 1, 0));
}

TEST(Views, UnusedLoadsVanish) {
  const auto k = kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) {
      Tile unused = x(i), last;
      for (auto j : steps(x.dim(0), 16)) unused = unused + x(j);
      z(i) = 1;
    }
  });
  const std::string text = k.trace(empty({40}), empty({40})).text();
  EXPECT_EQ(text.find("load_view"), text.npos) << text;
  EXPECT_EQ(text.find("for "), text.npos) << text;
}

TEST(Pointers, LoadStoreMaskFillAndHints) {
  const auto k = kernel("k", [](Ptr<f32> x, Ptr<f32> z, Scalar<i32> n) {
    const Tile at = arange(8);
    store(z + at, load(x + at, at < n, -1.0f, {.cache = Cache::cg, .evict = Evict::first}) * 2,
          at < 6);
  });
  const Tensor x = Tensor::iota({4}, DType::f32, kHost), z = Tensor::zeros({7}, DType::f32, kHost);
  test::run(k, x, z, 4);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(0, 2, 4, 6, -2, -2, 0));
  const std::string text = k.trace(x, z, 4).text();
  EXPECT_THAT(text, HasSubstr("[cache = \"cg\", evict = \"first\"]"));
  EXPECT_THAT(text, HasSubstr("%arg0: ptr<f32> [arg = 0, divisibility = 16]"));
}

TEST(Pointers, Atomics) {
  const auto k = kernel("k", [](Ptr<i32> p, Out<i32, 1> old) {
    for (auto i : grid(old, 4)) {
      old(i) = atomic_max(p + i.indices() * 0, i.indices(), i.indices() != 2);
      atomic_add(p + 1, 5);
      atomic_min(p + 2, -3);
      atomic_xchg(p + 3, 8);
      atomic_or(p + 4, i.indices() + 8);
      atomic_and(p + 5, 6, i.indices() == 0);
      atomic_xor(p + 5, 5);
    }
  });
  const Tensor p = Tensor::zeros({6}, DType::i32, kHost), old = empty({4}, DType::i32);
  std::vector<ir::EvalArg> args{
      ir::PointerArg{p.data(), p.data(), static_cast<char*>(p.data()) + 24},
      ir::TensorArg{old.data(), {4}, {1}, DType::i32}};
  ir::evaluate(k.trace(p, old).kernel(), args);
  EXPECT_THAT(p.to_vector<i32>(), ElementsAre(3, 5, -3, 8, 11, 5));
}

TEST(Pointers, AtomicsOfBitsAreOfIntegers) {
  const auto k = kernel("k", [](Ptr<f32> p) {
    for ([[maybe_unused]] auto i : grid(GridSpace({1}), 1)) atomic_or(p, 1.0f);
  });
  const Tensor p = Tensor::zeros({1}, DType::f32, kHost);
  EXPECT_THAT([&] { (void)k.trace(p); }, ThrowsMessage<CompileError>(HasSubstr("tiles_test.cpp")));
}

TEST(Pointers, InlinePtxIsRecorded) {
  traced([] {
    EXPECT_EQ(ptx<f32>("ex2.approx.ftz.f32 $0, $1;", "=f,f", zeros<f32>(4)).shape(), Shape{4});
  });
}

// ---- control flow -------------------------------------------------------------------------------
TEST(Loops, CarryOnlyChangedVariables) {
  const auto k = kernel("k", [](In<f32, 2> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) {
      Tile total = zeros<f32>(16), best = full<f32>(-inf, 16), constant = zeros<f32>(16),
           unused = zeros<f32>(16);
      Tile reset = constant;
      for (auto j : steps(x.cols(), 4)) {
        const Tile t = x(i, j);
        total += sum(t, 1) + reset;
        reset = constant;
        best = max(best, max(t, axis(1)));
        Tile same = constant;
        constant = same;
        unused = unused + 1;
      }
      z(i) = total * 100 + best + constant;
    }
  });
  const Tensor x = Tensor::iota({3, 10}, DType::f32, kHost), z = empty({3});
  test::run(k, x, z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(4509, 14519, 24529));
  EXPECT_THAT(k.trace(x, z).text(), HasSubstr("[loop = \"steps\"] : tile<16xf32>, tile<16xf32> {"));
}

TEST(Loops, ExchangedVariablesStayCarried) {
  EXPECT_THAT(from_matrix(1,
                          [](auto x, auto) {
                            Tile a = 1.0f, b = 2.0f;
                            for (auto j : steps(x.dim(0), 1)) {  // three times
                              (void)j;
                              std::swap(a, b);
                            }
                            return a * 10 + b;
                          }),
              ElementsAre(21));
}

TEST(Loops, NestAndRangeOverTracedBounds) {
  EXPECT_THAT(from_matrix(1,
                          [](auto x, auto) {
                            Tile sum = 0.0f;
                            for (auto r : steps(1, x.rows(), 1))
                              for (auto c : steps(r.first(), x.cols(), 1)) sum += x(r, c);
                            return sum;
                          }),
              ElementsAre(5 + 6 + 7 + 10 + 11));
}

TEST(Loops, RunNoTimesAtAll) {
  EXPECT_THAT(from_matrix(1,
                          [](auto x, auto) {
                            Tile n = 7;
                            for (auto j : steps(x.dim(0), x.dim(0), 1))
                              n = n + cast<i32>(j.first());
                            return cast<f32>(n);
                          }),
              ElementsAre(7));
}

TEST(Loops, OptionsAreRecorded) {
  const auto k = kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) {
      auto t = zeros<f32>(16);
      for (auto j : steps(x.dim(0), 16).stages(3).unroll()) t += x(j);
      z(i) = t;
    }
  });
  EXPECT_THAT(k.trace(empty({32}), empty({32})).text(),
              HasSubstr("stages = 3, unroll = 1, loop = \"steps\""));
}

TEST(Branches, MergeVariablesThatEitherSideRebinds) {
  const auto pick = [](float threshold) {
    return from_matrix(1, [threshold](auto x, auto) {
      Tile a = 1.0f, b = 2.0f;
      if_(
          x(1, 1) > threshold,
          [&] {
            a = 10.0f;
            b = 20.0f;
          },
          [&] { b = a + b; });
      return a * 100 + b;
    });
  };
  EXPECT_THAT(pick(4), ElementsAre(1020));
  EXPECT_THAT(pick(6), ElementsAre(103));
}

TEST(Branches, MayDefineAVariableInBoth) {
  EXPECT_THAT(from_matrix(1,
                          [](auto x, auto) {
                            Tile a;
                            if_(x(1, 1) > 4, [&] { a = x(0, 1); }, [&] { a = x(0, 2); });
                            return a;
                          }),
              ElementsAre(1));
}

TEST(Branches, StoresInsideAreConditional) {
  const auto k = kernel("k", [](In<f32, 1> x, InOut<f32, 1> z) {
    for (auto i : grid(z, 1)) if_(x(i) > 1, [&] { z(i) = 9; });
  });
  const Tensor z = Tensor::zeros({3}, DType::f32, kHost);
  test::run(k, host({1, 2, 3}), z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(0, 9, 9));
}

TEST(While, RunsToItsCondition) {
  EXPECT_THAT(from_matrix<i32>(1,
                               [](auto, auto) {
                                 Tile n = 27, count = 0;  // Collatz
                                 while_([&] { return n != 1; },
                                        [&] {
                                          n = where(n % 2 == 0, n / 2, 3 * n + 1);
                                          count += 1;
                                        });
                                 return count;
                               }),
              ElementsAre(111));
}

// ---- grids --------------------------------------------------------------------------------------
TEST(Grid, OrdersCoverEveryTileOnce) {
  const auto covered = [](auto... options) {
    const auto k = kernel("k", [=](InOut<i32, 3> z) {
      for (auto [a, b, c] : grid(z, 1, 2, 4, options...)) z(a, b, c) += 1;
    });
    const Tensor z = Tensor::zeros({3, 7, 11}, DType::i32, kHost);
    test::run(k, z);
    const auto all_of = z.to_vector<i32>();
    return std::ranges::all_of(all_of, [](i32 v) { return v == 1; });
  };
  EXPECT_TRUE(covered());
  EXPECT_TRUE(covered(group_m(3)));
  EXPECT_TRUE(covered(group_m(100)));
  EXPECT_TRUE(covered(balanced_pairs));
  EXPECT_TRUE(covered(balanced_pairs, group_m(2)));
}

TEST(Grid, LeadingDimensionsOfScalarsAndOfNothing) {
  const auto of_scalar = kernel("k", [](InOut<i32, 1> z, Scalar<i32> n) {
    for (auto i : grid(n, 2)) z(i) += 1;
  });
  const Tensor z = Tensor::zeros({6}, DType::i32, kHost);
  test::run(of_scalar, z, 3);
  EXPECT_THAT(z.to_vector<i32>(), ElementsAre(1, 1, 1, 1, 0, 0)) << "two blocks of two";
  const auto of_two = kernel("k", [](InOut<i32, 1> z, Scalar<i32> n) {
    for (auto [i, j] : grid({n + 1, z.dim(0)}, 1, 2)) atomic_add(z(j), cast<i32>(i) + 1);
  });
  test::run(of_two, z, 1);
  EXPECT_THAT(z.to_vector<i32>(), ElementsAre(4, 4, 4, 4, 3, 3));
  const auto without = kernel("k", [](InOut<i32, 1> z) { z(2) = 77; });
  test::run(without, z);
  EXPECT_EQ(z.to_vector<i32>()[2], 77);
}

TEST(Grid, WideTensorsAreIndexedIn64Bits) {
  const auto k = kernel("k", [](In<f32, 2> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = x(i, 0);
  });
  // Only the strides are large: nothing is read.
  float one = 1;
  const Tensor wide = Tensor::borrow(&one, {4, 1}, DType::f32, kHost, {std::int64_t{1} << 30, 1});
  const Tensor small = Tensor::borrow(&one, {2, 1}, DType::f32, kHost, {std::int64_t{1} << 30, 1});
  EXPECT_THAT(k.trace(wide, empty({4})).text(), HasSubstr("= view_dim %arg1 [axis = 0] : i64"));
  EXPECT_THAT(k.trace(small, empty({4})).text(), HasSubstr("= view_dim %arg1 [axis = 0] : i32"));
}

TEST(Relaxed, MarksTheSumsOfTilesThatItsBodyComputes) {
  const auto k = kernel("k", [](In<f32, 2> x, Out<f32, 2> z) {
    for (auto [i, j] : grid(z, 4, 8)) {
      const Tile before = x(i, j) + 1.0f;
      const Tile inside = reassociable([&] {
        const Tile distance = cast<f32>(expand(j, 0) - expand(i, 1));
        return max(fma(before, 2.0f, distance) / 3.0f, cast<f32>(i.first()) * 2.0f);
      });
      z(i, j) = inside - 1.0f;
    }
  });
  const Tensor x = empty({4, 8});
  const std::string text = k.trace(x, x).text();
  std::vector<std::string> marked;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string value, equals, op;
    words >> value >> equals >> op;
    if (line.find("reassoc = 1") != line.npos) marked.push_back(op);
  }
  EXPECT_THAT(marked, ElementsAre("cast", "fma", "div")) << text;
}

TEST(Locations, NameTheOperatorInTheUsersSource) {
  const auto k = kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = silu(x(i)) * 2;
  });
  const std::string text = k.trace(empty({4}), empty({4})).text(true);
  const auto count = [&](std::string_view word) {
    std::size_t n = 0;
    for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
    return n;
  };
  EXPECT_GT(count("loc("), 20u);
  EXPECT_EQ(count("loc("), count("tiles_test.cpp")) << "a place inside the library:\n" << text;
}

}  // namespace
}  // namespace tegula::tiles_test
