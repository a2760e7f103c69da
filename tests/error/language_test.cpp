// Every diagnostic of the language, provoked and pinned word for word in language.txt.
#include <filesystem>
#include <thread>
#include <vector>

#include "expect_error.h"
#include "support/env.h"
#include "support/errors.h"
#include "support/text.h"
#include "tegula/tegula.h"

namespace tegula::language_test {
namespace {

using test::error_of;

test::Pinned& pinned() {
  static test::Pinned file("language.txt");
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

/// Traces a lambda of a matrix in and a matrix out, inside a grid of 16 x 32 blocks.
template <class F>
void in_grid(F f) {
  kernel("k", [f](In<f32, 2> x, Out<f32, 2> z) {
    for (auto [i, j] : grid(z, 16, 32)) z(i, j) = f(x, i, j);
  }).trace(tensor({40, 70}), tensor({40, 70}));
}

/// Traces a lambda over a matrix and its index, without a result.
template <class F>
void on_tile(F f) {
  kernel("k", [f](In<f32, 2> x, Out<f32, 2> z) {
    for (auto [i, j] : grid(z, 16, 32)) f(x(i, j));
  }).trace(tensor({40, 70}), tensor({40, 70}));
}

// ---- element types ------------------------------------------------------------------------------
TEST(LanguageError, Types) {
  expect("T0101 integers_only", [] { on_tile([](Tile t) { t = t % 3; }); });
  expect("T0101 shift of floats", [] { on_tile([](Tile t) { t = t << 1; }); });
  expect("T0102 floats_only", [] { on_tile([](Tile t) { t = exp(cast<i32>(t)); }); });
  expect("T0103 storage_only", [] { on_tile([](Tile t) { t = cast<f8e4m3>(t) + 1; }); });
  expect("T0104 literal_range", [] { on_tile([](Tile t) { t = cast<i8>(t) + 300; }); });
  expect("T0104 negative literal of unsigned",
         [] { on_tile([](Tile t) { t = cast<u32>(t) > -1; }); });
  expect("T0104 a fraction", [] { on_tile([](Tile) { full<i32>(2.5, 8); }); });
  expect("T0105 bitcast_width", [] { on_tile([](Tile t) { t = bitcast<i64>(t); }); });
  expect("T0106 where", [] { on_tile([](Tile t) { t = where(t, 1, 0); }); });
  expect("T0106 if_ of a tile", [] { on_tile([](Tile t) { if_(t > 0, [] {}); }); });
  expect("T0106 while_ of a tile",
         [] { on_tile([](Tile t) { while_([&] { return t > 0; }, [&] { t = t - 1; }); }); });
  expect("T0106 any", [] { on_tile([](Tile t) { t = any(t); }); });
  const auto with_pointer = [](auto f) {
    kernel("k", [f](Ptr<f32> p) { f(p); }).trace(tensor({64}));
  };
  expect("T0107 pointer_operand", [&] { with_pointer([](auto p) { Tile t = p * 2; }); });
  expect("T0108 pointer_required", [] { on_tile([](Tile t) { t = load(t); }); });
  expect("T0109 dot_types", [] { on_tile([](Tile t) { t = dot(t, cast<bf16>(t).T()); }); });
  expect("T0110 dot_type",
         [] { on_tile([](Tile t) { t = dot(cast<i16>(t), cast<i16>(t).T()); }); });
  expect("T0111 dot_acc_type",
         [] { on_tile([](Tile t) { t = dot(t, t.T(), zeros<bf16>(16, 16)); }); });
  expect("T0130 stochastic_type",
         [] { on_tile([](Tile t) { t = cast<f64>(t, Stochastic{cast<u32>(t)}); }); });
  expect("T0131 stochastic_bits",
         [] { on_tile([](Tile t) { t = cast<bf16>(t, Stochastic{t}); }); });
  expect("T0132 randint_type", [] { on_tile([](Tile t) { t = randint(1, 2, cast<i16>(t), 7); }); });
  expect("T0112 store_type", [] {
    kernel("k", [](In<f32, 1> x, Out<i32, 1> z) {
      for (auto i : grid(z, 64)) z(i) = x(i);
    }).trace(tensor({64}), tensor({64}, DType::i32));
  });
}

// ---- shapes -------------------------------------------------------------------------------------
TEST(LanguageError, Shapes) {
  expect("T0201 shapes_differ", [] { on_tile([](Tile t) { t = t + arange(7); }); });
  expect("T0202 bad_axis", [] { on_tile([](Tile t) { t = sum(t, 2); }); });
  expect("T0203 bad_reshape", [] { on_tile([](Tile t) { t = reshape(t, {16, 31}); }); });
  expect("T0204 bad_permutation", [] { on_tile([](Tile t) { t = permute(t, {0, 0}); }); });
  expect("T0205 bad_extent", [] { on_tile([](Tile t) { t = zeros<f32>(16, 0); }); });
  expect("T0206 dot_rank", [] { on_tile([](Tile t) { t = dot(t, arange(32)); }); });
  expect("T0207 dot_contraction", [] { on_tile([](Tile t) { t = dot(t, t); }); });
  expect("T0215 indices of the first operand", [] {
    kernel("k", [](In<f32, 2> x, In<f32, 2> y, Out<f32, 2> z) {
      for (auto [i, j] : grid(z, 16, 16))
        for (auto k : steps(x.rows(), 16)) z(i, j) = dot(cast<bf16>(x(k, i)), cast<bf16>(y(k, j)));
    }).trace(tensor({16, 16}), tensor({16, 16}), tensor({16, 16}));
  });
  expect("T0208 dot_acc_shape",
         [] { on_tile([](Tile t) { t = dot(t, t.T(), zeros<f32>(16, 32)); }); });
  expect("T0209 not_a_tile", [] { on_tile([](Tile t) { t = sum(sum(t), 0); }); });
  expect("T0210 store_shape", [] { in_grid([](auto x, auto i, auto j) { return x(i, j).T(); }); });
  expect("T0211 bad_broadcast", [] { on_tile([](Tile t) { t = broadcast(t, {16, 64}); }); });
  expect("T0212 all_too_large", [] {
    kernel("k", [](In<f32, 2> x, Out<f32, 1> z) {
      for (auto i : grid(z, 1)) z(i) = sum(x(i, all));
    }).trace(tensor({2, 100000}), tensor({2}));
  });
  expect("T0214 fold_or_compare", [] { on_tile([](Tile t) { t = max(t, 0); }); });
  expect("T0213 reduce_shapes", [] {
    on_tile([](Tile t) { reduce(std::array{t, arange(16)}, 0, [](auto l, auto) { return l; }); });
  });
}

TEST(LanguageError, Parts) {
  expect("T0120 scatter_floats", [] {
    on_tile([](Tile t) { t = scatter(t, arange(32)(none, all), t, 1, Combine::add); });
  });
  expect("T0101 index of floats", [] { on_tile([](Tile t) { t = gather(t, t, 1); }); });
  expect("T0216 dot_batches",
         [] { on_tile([](Tile t) { t = dot(t.reshape({2, 8, 32}), t.reshape({4, 32, 4})); }); });
  expect("T0220 bad_slice", [] { on_tile([](Tile t) { t = slice(t, 1, 20, 16); }); });
  expect("T0220 a subscript", [] { on_tile([](Tile t) { t = t(all, 32); }); });
  expect("T0221 bad_squeeze", [] { on_tile([](Tile t) { t = squeeze(t, 0); }); });
  expect("T0222 split_extent", [] { on_tile([](Tile t) { t = split(t).first; }); });
  expect("T0223 pick_count", [] { on_tile([](Tile t) { t = t(none, all); }); });
  expect("T0224 cat_shapes", [] { on_tile([](Tile t) { t = cat({t, t.T()}, 0); }); });
  expect("T0225 empty_cat", [] { on_tile([](Tile t) { t = cat({}, 0); }); });
  expect("T0226 bad_padding", [] { on_tile([](Tile t) { t = pad(t, 0, -1, 0, 0); }); });
  expect("T0227 lines_differ", [] { on_tile([](Tile t) { t = gather(t, arange(32), 1); }); });
  expect("T0228 scalar_required", [] { on_tile([](Tile t) { t = extract(t, 1, arange(16)); }); });
  expect("T0229 dim_of_all",
         [] { in_grid([](auto x, auto i, auto j) { return x(i, j) * float(x(i, all).dim(1)); }); });
}

// ---- control flow -------------------------------------------------------------------------------
template <class F>
void in_loop(F f) {
  kernel("k", [f](In<f32, 2> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = f(x, i);
  }).trace(tensor({40, 70}), tensor({40}));
}

TEST(LanguageError, HiddenState) {
  expect("T0301 a flag", [] {
    in_loop([](auto x, auto i) {
      auto acc = zeros<f32>(16);
      bool first = true;
      for (auto j : steps(x.cols(), 32)) {
        if (!first) acc += sum(x(i, j), 1);
        first = false;
      }
      return acc;
    });
  });
  expect("T0301 a toggled number", [] {
    in_loop([](auto x, auto i) {
      auto acc = zeros<f32>(16);
      int stage = 0;
      for (auto j : steps(x.cols(), 32)) {
        acc += sum(x(i, j), 1) * stage;
        stage ^= 1;
      }
      return acc;
    });
  });
  expect("T0301 exchanged variables", [] {
    in_loop([](auto x, auto i) {
      auto a = zeros<f32>(16), b = zeros<f32>(16);
      Tile* to = &a;
      for (auto j : steps(x.cols(), 32)) {
        *to = sum(x(i, j), 1);
        to = to == &a ? &b : &a;
      }
      return a + b;
    });
  });
  expect("T0301 in the grid loop", [] {
    int n = 0;
    kernel("k", [&n](Out<f32, 1> z) {
      for (auto i : grid(z, 16)) z(i) = full<f32>(n++, 16);
    }).trace(tensor({40}));
  });
  expect("T0301 in while_", [] {
    in_loop([](auto x, auto i) {
      Tile n = 3;
      auto acc = sum(x(i, slice(0, 32)), 1);
      int power = 1;
      while_([&] { return n > 0; },
             [&] {
               acc = acc * (power *= 2);
               n = n - 1;
             });
      return acc;
    });
  });
}

template <class F>
void leaving(F leave) {
  in_loop([leave](auto x, auto i) {
    auto acc = zeros<f32>(16);
    for (auto j : steps(x.cols(), 32)) leave(acc += sum(x(i, j), 1));
    return acc;
  });
}

TEST(LanguageError, MapsAndEarlyExits) {
  expect("T0309 map", [] {
    on_tile([](Tile t) {
      Tile outside = t;
      t = map([&](Tile x) { return outside = x + 1; }, t);
    });
  });
  expect("T0311 break_if outside of a loop", [] { on_tile([](Tile t) { break_if(max(t) > 0); }); });
  expect("T0311 break_if in a branch",
         [] { leaving([](Tile t) { if_(max(t) > 0, [&] { break_if(min(t) > 0); }); }); });
  expect("T0312 exit_program_if in a loop",
         [] { leaving([](Tile t) { exit_program_if(max(t) > 0); }); });
  expect("T0106 break_if of a tile", [] { leaving([](Tile t) { break_if(t > 0); }); });
}

TEST(LanguageError, LoopVariables) {
  expect("T0302 outlives_body", [] {
    in_loop([](auto x, auto i) {
      std::vector<Tile> seen;
      for (auto j : steps(x.cols(), 32)) seen.push_back(sum(x(i, j), 1));
      return seen.front();
    });
  });
  expect("T0302 born in a branch", [] {
    on_tile([](Tile t) {
      std::vector<Tile> seen;
      if_(sum(t) > 0, [&] { seen.push_back(t + 1); });
    });
  });
  expect("T0303 carried_type", [] {
    in_loop([](auto x, auto i) {
      Tile acc = 0;
      for (auto j : steps(x.cols(), 32)) acc = acc + sum(x(i, j), 1);
      return acc;
    });
  });
  expect("T0306 branch_type", [] {
    on_tile([](Tile t) {
      Tile r = 0.0f;
      if_(sum(t) > 0, [&] { r = sum(t, 1); });
    });
  });
  expect("T0307 condition_rebinds", [] {
    on_tile([](Tile) {
      Tile n = 3;
      while_(
          [&] {
            n = n - 1;
            return n > 0;
          },
          [] {});
    });
  });
  expect("T0308 undefined_after", [] {
    in_loop([](auto x, auto i) {
      Tile last;
      for (auto j : steps(x.cols(), 32)) last = sum(x(i, j), 1);
      return last + 1;
    });
  });
  expect("T0308 in one branch only", [] {
    on_tile([](Tile t) {
      Tile r;
      if_(sum(t) > 0, [&] { r = t; });
      t = r + 1;
    });
  });
  expect("T0309 reduce_rebinds", [] {
    on_tile([](Tile t) {
      Tile n = 0;
      t = reduce(t, 0, [&](Tile l, Tile r) {
        n = l > r;
        return l + r;
      });
    });
  });
  expect("T0310 destroyed_in_loop", [] {
    in_loop([](auto x, auto i) {
      std::vector<Tile> ready{zeros<f32>(16)};
      for (auto j : steps(x.cols(), 32)) {
        (void)j;
        ready.pop_back();
      }
      return sum(x(i, slice(0, 32)), 1);
    });
  });
}

TEST(LanguageError, LeavingALoop) {
  expect("T0304 break", [] {
    in_loop([](auto x, auto i) {
      auto acc = zeros<f32>(16);
      for (auto j : steps(x.cols(), 32)) {
        acc += sum(x(i, j), 1);
        break;
      }
      return acc + 1;
    });
  });
  expect("T0304 return", [] {
    in_loop([](auto x, auto i) {
      for (auto j : steps(x.cols(), 32)) return sum(x(i, j), 1);
      return zeros<f32>(16);
    });
  });
  expect("T0304 break out of the grid", [] {
    kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 16)) {
        z(i) = x(i);
        break;
      }
    }).trace(tensor({40}), tensor({40}));
  });
  expect("T0305 exception_in_kernel", [] {
    in_loop([](auto x, auto i) {
      auto acc = zeros<f32>(16);
      for (auto j : steps(x.cols(), 32)) {
        acc += sum(x(i, j), 1);
        throw std::runtime_error("no luck");
      }
      return acc;
    });
  });
}

// ---- life of handles ----------------------------------------------------------------------------
TEST(LanguageError, Handles) {
  expect("T0401 no_trace", [] { zeros<f32>(16); });
  expect("T0402 from an earlier trace", [] {
    Tile kept;
    on_tile([&](Tile t) { kept = t; });
    on_tile([&](Tile t) { t = t + kept; });
  });
  expect("T0402 from the trace around",
         [] { on_tile([](Tile outer) { on_tile([&](Tile t) { t = t + outer; }); }); });
  expect("T0401 on another thread", [] {
    on_tile([](Tile t) {
      std::exception_ptr error;
      std::thread([&] {
        try {
          t + 1;
        } catch (...) {
          error = std::current_exception();
        }
      }).join();
      if (error) std::rethrow_exception(error);
    });
  });
  expect("T0403 undefined_value", [] {
    on_tile([](Tile t) {
      Tile nothing;
      t = t + nothing;
    });
  });
}

// ---- views and memory ---------------------------------------------------------------------------
TEST(LanguageError, Views) {
  expect("T0501 out_view_read", [] {
    kernel("k", [](Out<f32, 1> z) {
      for (auto i : grid(z, 16)) z(i) += 1;
    }).trace(tensor({40}));
  });
  expect("T0502 tile_subscript", [] {
    on_tile([](Tile) {});
    in_grid([](auto x, auto i, auto) { return x(i, x(0, 0)); });
  });
  const Tensor table = tensor({16});
  expect("T0113 argument_dtype", [&] { on_tile([&](Tile t) { t = t + view<i32, 1>(table)(0); }); });
  expect("T0505 captured_rank",
         [&] { on_tile([&](Tile t) { t = t + view<f32, 2>(table)(0, 0); }); });
  expect("T0506 bad_dim",
         [] { in_grid([](auto x, auto i, auto j) { return x(i, j) + x.dim(2); }); });
}

// ---- segments -----------------------------------------------------------------------------------
TEST(LanguageError, Segments) {
  const auto in_segments = [](auto rows, int block, auto option) {
    kernel("k", [=](In<f32, 1> x, In<i32, 1> offsets, Out<f32, 1> z) {
      for (auto [s, m] : grid(segments(offsets, rows(x)), block, option)) z(m) = x(m);
    }).trace(tensor({40}), Tensor::zeros({3}, DType::i32, Device::cpu()), tensor({40}));
  };
  const auto all_rows = [](const auto& x) { return x.dim(0); };
  expect("T0616 segments_cluster", [&] { in_segments(all_rows, 16, cluster(2)); });
  expect("T0605 rows of segments that only the device knows",
         [&] { in_segments([](const auto& x) { return cast<i32>(x(0)); }, 16, group_m(1)); });
  expect("T0101 rows of segments that are no integers",
         [&] { in_segments([](const auto&) { return 4.5; }, 16, group_m(1)); });
  expect("T0604 a block of no rows", [&] { in_segments(all_rows, 0, group_m(1)); });
  expect("T0101 an end that is no integer",
         [] { in_grid([](auto x, auto i, auto j) { return x(i.until(x(0, 0)), j); }); });
}

// ---- grid and tunables --------------------------------------------------------------------------
TEST(LanguageError, Grid) {
  expect("T0601 second_grid", [] {
    kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 16)) z(i) = x(i);
      for (auto i : grid(z, 16)) z(i) = x(i);
    }).trace(tensor({40}), tensor({40}));
  });
  expect("T0602 nested_grid", [] {
    kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 16))
        for (auto j : grid(x, 16)) z(i) = x(j);
    }).trace(tensor({40}), tensor({40}));
  });
  expect("T0602 grid in a branch", [] {
    kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
      if_(x.dim(0) > 3, [&] {
        for (auto i : grid(z, 16)) z(i) = x(i);
      });
    }).trace(tensor({40}), tensor({40}));
  });
  expect("T0603 grid_rank", [] {
    kernel("k", [](Out<f32, 1> z) {
      for (auto [i, j] : grid(z, 16, 16)) z(i) = j.first();
    }).trace(tensor({40}));
  });
  expect("T0604 bad_block", [] {
    kernel("k", [](Out<f32, 1> z) {
      for (auto i : grid(z, 0)) z(i) = 1;
    }).trace(tensor({40}));
  });
  expect("T0605 grid_extent", [] {
    kernel("k", [](In<i32, 1> n, Out<f32, 1> z) {
      for (auto i : grid(n(0), 16)) z(i) = 1;
    }).trace(tensor({1}, DType::i32), tensor({40}));
  });
  const auto in_cluster = [](int programs, auto f) {
    kernel("k", [=](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 16, cluster(programs))) z(cluster_slice(i)) = f(x(i));
    }).trace(tensor({40}), tensor({40}));
  };
  expect("T0610 bad_cluster",
         [&] { in_cluster(3, [](Tile t) { return cluster_reduce_scatter(t, 0); }); });
  expect("T0611 before_grid", [] {
    kernel("k", [](Out<f32, 1> z) {
      const Tile rank = cluster_rank();
      for (auto i : grid(z, 16)) z(i) = rank;
    }).trace(tensor({40}));
  });
  expect("T0612 cluster_parts of an index", [] {
    kernel("k", [](Out<f32, 1> z) {
      for (auto i : grid(z, 12, cluster(8))) z(cluster_slice(i)) = 1;
    }).trace(tensor({40}));
  });
  expect("T0612 cluster_parts of one element", [&] {
    in_cluster(2, [](Tile t) { return cluster_reduce_scatter(t.reshape({8, 2}), 1); });
  });
  expect("T0613 cluster_in_loop", [&] {
    in_cluster(2, [](Tile t) {
      Tile all = zeros<f32>(8);
      for (auto k : steps(4, 1)) all = all + cluster_reduce_scatter(t * k.first(), 0);
      return all;
    });
  });
  expect("T0114 narrow_accumulator",
         [&] { in_cluster(2, [](Tile t) { return cluster_reduce_scatter(cast<bf16>(t), 0); }); });
  expect("T0606 after_grid", [] {
    kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 16)) z(i) = x(i);
      z(0) = 1;
    }).trace(tensor({40}), tensor({40}));
  });
  expect("T0606 after_grid: barrier", [] {
    kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 16)) z(i) = x(i);
      barrier();
    }).trace(tensor({40}), tensor({40}));
  });
}

TEST(LanguageError, Atomics) {
  expect("T1401 atomic_type", [] {
    kernel("k", [](Ptr<i1> flags, Out<f32, 1> z) {
      for (auto i : grid(z, 16)) atomic_xchg(flags + i.indices(), z.rows() > 3);
    }).trace(tensor({40}, DType::i1), tensor({40}));
  });
  expect("T0103 storage_only of an atomic sum", [] {
    kernel("k", [](Ptr<f8e4m3> p, Out<f32, 1> z) {
      for (auto i : grid(z, 16)) atomic_add(p + i.indices(), 1.0f);
    }).trace(tensor({40}, DType::f8e4m3), tensor({40}));
  });
  expect("T0115 counter_type", [] {
    kernel("k", [](Ptr<i32> counter, Out<f32, 1> z) {
      for (auto i : grid(z, 16)) if_(arrive_and_test_last(counter, 2), [&] { z(i) = 1; });
    }).trace(tensor({1}, DType::i32), tensor({40}));
  });
}

TEST(LanguageError, Tune) {
  const auto tuned = [](auto f) { return kernel("k", [f](Out<f32, 1>) { f(); }); };
  expect("T0607 tune_sets", [&] {
    tuned([] {
      tune("BM", {1, 2});
      tune("BM", {1, 2, 3});
    }).trace(tensor({40}));
  });
  expect("T0608 tune_value",
         [&] { tuned([] { tune("BM", {1, 2}); }).with({{"BM", 5}}).trace(tensor({40})); });
  expect("T0609 tune_empty", [&] { tuned([] { tune("BM", {}); }).trace(tensor({40})); });
  expect("T0614 nothing_to_tune", [&] { tuned([] { tune("BM", {1}); }).tune(tensor({40})); });
  expect("T0615 tuned_address", [] {
    const float number = 0;
    const auto k = kernel("by_address", [](Ptr<f32>, Out<f32, 1> z) {
      const int block = tune("BLOCK", {16, 32});
      for (auto i : grid(z, block)) z(i) = zeros<f32>(block);
    });
    k.tune(&number, tensor({40}));
  });
}

// ---- calls --------------------------------------------------------------------------------------
TEST(LanguageError, Calls) {
  const auto k = kernel("rows", [](In<f32, 2> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = x(i, 0);
  });
  expect("T0701 argument_rank", [&] { k.trace(tensor({4}), tensor({4})); });
  expect("T0702 argument_type", [&] { k.trace(tensor({4, 4}), tensor({4}, DType::bf16)); });
  expect("T0703 argument_undefined", [&] { k.trace(Tensor(), tensor({4})); });
  const Tensor x = tensor({4, 4}), z = tensor({4});
  expect("T0704 unknown_stage", [&] { k.dump("link"); });
  const auto named = kernel("product", [](In<f32, 2> a, In<f32, 2> b, Out<f32, 2> c) {
                       for (auto [m, n] : grid(c, 16, 16))
                         for (auto k : steps(a.cols(), 16)) c(m, n) = dot(a(m, k), b(n, k));
                     }).named("A[M, K]", "B[K, N]", "C[M, N]");
  expect("T0215 dot_indices",
         [&] { named.trace(tensor({16, 32}), tensor({32, 32}), tensor({16, 32})); });
  expect("T0709 extents_differ",
         [&] { named(tensor({16, 32}), tensor({31, 32}), tensor({16, 32})); });
  expect("T0710 bad_name", [&] { named.named("A[M]", "B", "C"); });
  expect("T0711 bad_plan", [&] { k.with_plan("depth=3"); });
  expect("T0712 bad_schedule", [&] { k.with_plan("schedule sm_90a { tiles round }"); });
  expect("T0711 no number", [&] { k.with_plan("stages=2, persistent=maybe"); });
  expect("T0705 not_compiled", [&] { k.dump("trace"); });
  expect("T0706 overlap", [&] { k(x, x.select(0, 1)); });
  expect("T0707 other_device", [&] { k(x, Tensor::empty({4}, DType::f32, Device::sim())); });
}

TEST(LanguageError, HostStateThatChanges) {
  Env strict = env();
  strict.check = {"retrace"};
  const EnvOverride with(strict);
  int n = 1;
  const auto k = kernel("stale", [&n](Out<i32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = full<i32>(n, 16);
  });
  const Tensor z = tensor({4}, DType::i32);
  k(z);
  k(z);
  n = 2;
  expect("T0708 stale_trace", [&] { k(z); });
}

TEST(LanguageWarning, OutTileReboundAndNeverStored) {
  const auto k = kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) {
      auto out = z(i);
      out = x(i);
    }
  });
  const unsigned base = std::source_location::current().line();
  const Trace trace = k.trace(tensor({40}), tensor({40}));
  ASSERT_EQ(trace.warnings().size(), 1u);
  pinned().check("T0508 never_stored",
                 test::with_relative_lines(trace.warnings().front().str(), base));
}

// ---- the table ----------------------------------------------------------------------------------
/// Each code is expected by a test: in a pinned text, or by its name.
TEST(LanguageErrorTable, EveryRowIsProvoked) {
  std::string all;
  for (const auto& [name, text] : pinned().expected())
    EXPECT_NE(text.find(name.substr(0, 5)), text.npos) << name << " is pinned as " << text;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TEGULA_SOURCE_DIR "/tests"))
    if (const auto kind = entry.path().extension();
        kind == ".txt" || kind == ".tir" || kind == ".cpp")
      all += read_file(entry.path());
  for (int i = 0; i < mistake_count(); ++i) {
    const ErrorRow& row = tegula::row(static_cast<ErrorId>(i));
    const std::string code(row.code);
    const bool is_expected =
        all.find("error " + code + ":") != all.npos || all.find('"' + code + '"') != all.npos;
    EXPECT_TRUE(is_expected) << code << " " << row.name << " is never provoked";
  }
}

}  // namespace
}  // namespace tegula::language_test
