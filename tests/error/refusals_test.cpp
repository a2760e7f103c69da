// Errors of the language, recorded word for word in refusals.txt: limits of tiles, functions of
// folds, types of indices, launches inside kernels.
#include <functional>

#include "expect_error.h"
#include "tegula/tegula.h"

namespace tegula::refusals_test {
namespace {

using test::error_of;

test::Pinned& pinned() {
  static test::Pinned file("refusals.txt");
  return file;
}

Tensor tensor(const Dims& shape, DType d = DType::f32) {
  return Tensor::empty(shape, d, Device::cpu());
}

template <class F>
void expect(const char* name, const F& f,
            std::source_location at = std::source_location::current()) {
  pinned().check(name, error_of(f, at));
}

/// Traces a lambda over a tile of 16 x 32 elements, without a result.
template <class F>
void on_tile(F f) {
  kernel("k", [f](In<f32, 2> x, Out<f32, 2> z) {
    for (auto [i, j] : grid(z, 16, 32)) f(x(i, j));
  }).trace(tensor({40, 70}), tensor({40, 70}));
}

/// Traces a lambda that makes a vector of the rows of a matrix.
template <class F>
void in_rows(F f) {
  kernel("k", [f](In<f32, 2> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = f(x, i);
  }).trace(tensor({40, 70}), tensor({40}));
}

TEST(Refusal, Limits) {
  expect("T1001 a block's tile", [] {
    kernel("k", [](In<f32, 2> x, Out<f32, 2> z) {
      for (auto [i, j] : grid(z, 2048, 1024)) z(i, j) = x(i, j);
    }).trace(tensor({40, 40}), tensor({40, 40}));
  });
  expect("T1001 zeros", [] { on_tile([](Tile t) { t = zeros<f32>(1 << 28); }); });
  expect("T1001 of more elements than there are numbers",
         [] { on_tile([](Tile t) { t = broadcast(t, {1 << 30, 1 << 30, 16, 32}); }); });
  expect("T1001 of operands that meet",
         [] { on_tile([](Tile) { expand(arange(1 << 20), 1) + arange(2); }); });
  expect("T1002 tile_rank", [] { on_tile([](Tile t) { t = reshape(t, {2, 8, 2, 2, 2, 2, 2}); }); });
  expect("T0205 of a reshape", [] { on_tile([](Tile t) { t = reshape(t, {-16, -32}); }); });
  expect("T0205 of a broadcast", [] { on_tile([](Tile) { broadcast(arange(1), {0}); }); });
  expect("T0604 of 2^31 elements", [] {
    kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, std::int64_t{1} << 31)) z(i) = x(i);
    }).trace(tensor({40}), tensor({40}));
  });
  expect("T0604 of 2^40 elements", [] { on_tile([](Tile) { slice(0, std::int64_t{1} << 40); }); });
  expect("T1006 compared_comparison", [] { on_tile([](Tile t) { t = where(0 < t < 5, t, 0); }); });
}

TEST(Refusal, Derivatives) {
  const auto of = [](const auto& f) {
    return [f] { on_tile([f](const Tile& t) { derivative(f(t), t, full<f32>(1, 16, 32)); }); };
  };
  expect("T1022 no_derivative",
         of([](const Tile& t) { return bitcast<f32>(bitcast<i32>(t) + 1) * t; }));
  expect("T1022 of a loop", of([](const Tile& t) {
           Tile y = t;
           for (auto n : steps(100, 1)) y = y * t + cast<f32>(n.first());
           return y;
         }));
  expect("T1023 derivative_operand", of([](const Tile& t) { return cast<i32>(t); }));
  expect("T1023 of another shape", of([](const Tile& t) { return sum(t, 0); }));
  expect("T1023 of a stated slope",
         [] { on_tile([](const Tile& t) { with_gradient(t, t, cast<i32>(t)); }); });
}

TEST(Refusal, ArgumentsOfCalls) {
  const auto k = kernel("k", [](Out<f32, 1> z, Scalar<u32> n) {
    for (auto i : grid(z, 16)) z(i) = full<f32>(cast<f32>(n), 16);
  });
  expect("T0713 scalar_range of an integer", [&] { k(tensor({4}), -1); });
  expect("T0713 scalar_range of a fraction", [&] { k(tensor({4}), 0.5); });
  Scalar<f16> half;
  expect("T0713 scalar_range of a captured Scalar", [&] { half = 70000; });
  const std::vector<Tensor> captured(64, tensor({4}));
  expect("T0714 too_many_arguments", [&] {
    kernel("many", [&](Out<f32, 1> z) {
      for (auto i : grid(z, 16))
        for (const Tensor& t : captured) z(i) = view<f32, 1>(t)(i);
    })(tensor({4}));
  });
}

TEST(Refusal, IndexTypes) {
  expect("T0303 an index", [] {
    in_rows([](auto x, auto i) {
      Tile n = full<i32>(0);
      for (auto j : steps(x.cols(), 32)) n = n + j.first();
      return sum(x(i, slice(0, 32)), 1) + n;
    });
  });
  expect("T0306 an index", [] {
    in_rows([](auto x, auto i) {
      Tile n = full<i32>(0);
      if_(x.rows() > 3, [&] { n = i.first(); });
      return sum(x(i, slice(0, 32)), 1) + n;
    });
  });
}

TEST(Refusal, FunctionsOfDoubles) {
  expect("T1030 dropout_probability", [] { on_tile([](Tile t) { t = dropout(t, 1, 0, 0); }); });
  expect("T1009 f64_approximation", [] { on_tile([](Tile t) { t = tanh_approx(cast<f64>(t)); }); });
}

TEST(Refusal, FunctionsOfFolds) {
  const auto fold = [](auto combine) {
    kernel("k", [combine](In<f32, 1> x, InOut<f32, 1> y) {
      for (auto i : grid(y, 1))
        y(i) = reduce(x(slice(0, 64)), 0, [&](Tile a, Tile b) { return combine(x, y, a, b); });
    }).trace(tensor({64}), tensor({1}));
  };
  expect("T1007 i1 for f32", [&] { fold([](auto, auto, Tile a, Tile b) { return a > b; }); });
  expect("T1007 i32 for f32",
         [&] { fold([](auto, auto, Tile a, Tile b) { return cast<i32>(a + b); }); });
  expect("T1008 a loop", [&] {
    fold([](auto, auto, Tile a, Tile b) {
      Tile r = a;
      for (auto j : steps(2, 1)) r = max(r, b * j.first());
      return r;
    });
  });
  expect("T1008 while_", [&] {
    fold([](auto, auto, Tile a, Tile b) {
      Tile r = a + b;
      while_([&] { return r > 100.0f; }, [&] { r = r - 1; });
      return r;
    });
  });
  expect("T1008 a load", [&] { fold([](auto x, auto, Tile a, Tile b) { return a + b * x(0); }); });
  expect("T1008 a fold in a map",
         [] { on_tile([](Tile t) { t = map([](Tile x) { return x - sum(x); }, t); }); });
  expect("T1008 a load by address", [] {
    kernel("k", [](In<f32, 1> x, Ptr<f32> p, Out<f32, 1> y) {
      for (auto i : grid(y, 1))
        y(i) = reduce(x(slice(0, 64)), 0, [&](Tile a, Tile b) { return a + b + load(p); });
    }).trace(tensor({64}), tensor({1}), tensor({1}));
  });
  expect("T1008 a store", [&] {
    fold([](auto, auto y, Tile a, Tile b) {
      y(0) = a;
      return a + b;
    });
  });
  expect("T1008 an atomic operation", [&] {
    fold([](auto, auto y, Tile a, Tile b) {
      atomic_add(y(0), a);
      return a + b;
    });
  });
  expect("T1008 assume", [&] {
    fold([](auto, auto, Tile a, Tile b) {
      assume(a >= 0);
      return a + b;
    });
  });
  expect("T1008 barrier", [&] {
    fold([](auto, auto, Tile a, Tile b) {
      barrier();
      return a + b;
    });
  });
  expect("T1008 a fold of a tile", [&] {
    fold([](auto, auto, Tile a, Tile b) {
      return reduce(expand(a, 0), 0, [](Tile c, Tile d) { return c + d; }) + b;
    });
  });
  expect("T1008 a tile",
         [&] { fold([](auto, auto, Tile a, Tile b) { return sum(a + b * arange(4)); }); });
  expect("T1008 a loop in a branch", [&] {
    fold([](auto, auto, Tile a, Tile b) {
      Tile r = a;
      if_(b > a, [&] {
        for (auto j : steps(2, 1)) r = r + j.first();
      });
      return r;
    });
  });
}

TEST(Refusal, NamesThatNoTuneHas) {
  const auto tuned = [](auto f) { return kernel("k", [f](Out<f32, 1>) { f(); }); };
  expect("T1005 unknown_tunable",
         [&] { tuned([] { tune("BLOCK", {1, 2}); }).with({{"BLOK", 2}}).trace(tensor({40})); });
  expect("T1005 of a kernel without any",
         [&] { tuned([] {}).with({{"B", 2}}).trace(tensor({40})); });
}

TEST(Refusal, TargetsThatThereAreNot) {
  const auto k = kernel("k", [](Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = 1.0f;
  });
  expect("T1020 unknown_target", [&] { k.compile("sm_42", spec<f32>(64)); });
  expect("T0701 a spec of another rank", [&] { k.compile("sm_90a", spec<f32>(64, 64)); });
  expect("T0702 a spec of another type", [&] { k.compile("sm_90a", spec<f16>(64)); });
}

TEST(Refusal, TensorsForPointers) {
  const auto pointer = kernel("first", [](Ptr<f32> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = load(x);
  });
  expect("T0702 of a pointer", [&] { pointer(tensor({4}, DType::f16), tensor({4})); });
  expect("T0702 of a named pointer",
         [&] { pointer.named("from", "z")(tensor({4}, DType::f16), tensor({4})); });
  expect("T1004 pointer_strides", [&] { pointer(tensor({4, 8}).transpose(0, 1), tensor({4})); });
}

TEST(Refusal, ScansAndSorts) {
  const auto add = [](Tile a, Tile b) { return a + b; };
  expect("T1011 scan_identity",
         [&] { on_tile([&](Tile t) { scan(t, 0, add, {.exclusive = true}); }); });
  expect("T1012 starts of another shape",
         [&] { on_tile([&](Tile t) { scan(t, 0, add, {.starts = arange(2) == 0}); }); });
  expect("T1012 starts of integers",
         [&] { on_tile([&](Tile t) { cumsum(t, 0, {.starts = cast<i32>(t)}); }); });
  expect("T1007 of a scan",
         [&] { on_tile([&](Tile t) { scan(t, 0, [](Tile a, Tile b) { return a > b; }); }); });
  expect("T0213 of a scan", [&] {
    on_tile([&](Tile t) {
      scan(std::array{t, Tile(zeros<f32>(3))}, 0,
           [](const std::array<Tile, 2>& a, const std::array<Tile, 2>&) { return a; });
    });
  });
  expect("T1013 sort_type", [&] {
    kernel("k", [](Ptr<f32> p, Out<i32, 1> y) {
      for (auto i : grid(y, 16)) y(i) = argsort(p + arange(16));
    }).trace(tensor({16}), tensor({16}, DType::i32));
  });
  expect("T1014 sort_extent", [&] { on_tile([](Tile) { sort(arange(1 << 16)); }); });
  expect("T1015 no element", [&] { on_tile([](Tile t) { topk(t, 0); }); });
  expect("T1015 more than there are", [&] { on_tile([](Tile) { topk(arange(100), 101); }); });
  expect("T1016 keys of floats", [&] { on_tile([](Tile t) { histogram(t, 8); }); });
  expect("T1017 bin_count", [&] { on_tile([](Tile) { key_ranks(arange(64), 5000); }); });
}

TEST(Refusal, LaunchesInsideOfKernels) {
  const auto relu = kernel("relu", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = max(x(i), 0.0f);
  });
  const Tensor x = tensor({40}), z = tensor({40});
  expect("T1003 another kernel", [&] {
    kernel("k", [&](In<f32, 1> in, Out<f32, 1> out) {
      for (auto i : grid(out, 16)) {
        out(i) = in(i);
        relu(x, z);
      }
    })(x, z);
  });
  std::function<void()> self;
  const auto endless = kernel("endless", [&](In<f32, 1> in, Out<f32, 1> out) {
    for (auto i : grid(out, 16)) out(i) = in(i);
    self();
  });
  self = [&] { endless(x, z); };
  expect("T1003 itself", [&] { endless(x, z); });
  self = [&] { endless.trace(x, z); };
  expect("T1003 a trace of itself", [&] { endless(x, z); });
  self = [] {};
  endless(tensor({40}), tensor({40}));  // and the kernel can be called afterwards
}

}  // namespace
}  // namespace tegula::refusals_test
