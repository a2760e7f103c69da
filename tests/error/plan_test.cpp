// Plans that were asked for and cannot be had, word for word in plan.txt.
#include "expect_error.h"
#include "support/env.h"
#include "tegula/tegula.h"

namespace tegula::plan_test {
namespace {

test::Pinned& pinned() {
  static test::Pinned file("plan.txt");
  return file;
}

template <class F>
void expect(const char* name, const F& f,
            std::source_location at = std::source_location::current()) {
  pinned().check(name, test::error_of(f, at));
}

Tensor tensor(const Dims& shape, DType d = DType::bf16) {
  return Tensor::zeros(shape, d, Device::sim());
}

auto product() {
  return kernel("product", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 128, 256)) {
      auto acc = zeros<f32>(128, 256);
      for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
      c(m, n) = acc;
    }
  });
}

/// Its ring stays alive between the tiles of a row of them, which are stored in between.
auto row_of_products() {
  return kernel("rows", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
    for (auto m : grid(rows(c), 128))
      for (auto n : steps(c.cols(), 256)) {
        auto acc = zeros<f32>(128, 256);
        for (auto k : steps(a.cols(), 128)) acc = dot(a(m, k), b(k, n), acc);
        c(m, n) = acc;
      }
  });
}

template <class K>
void call(const K& k) {
  k(tensor({256, 256}), tensor({256, 256}), tensor({256, 256}, DType::f32));
}

template <class K>
void call_under(const char* plan, const K& k) {
  Env with = env();
  with.plan = plan;
  const EnvOverride scope(with);
  call(k);
}

/// Rings alone are more than a CTA may use: what was asked, what it takes, and what there is room
/// for.
TEST(PlanError, MoreStagesThanFit) {
  expect("TEGULA_PLAN, wgmma", [] { call_under("stages=6", product()); });
  expect("TEGULA_PLAN, mma.sync",
         [] { call_under("wgmma=0 stages=8 warps_m=2 warps_n=4", product()); });
  expect("with_plan", [] { call(product().with_plan("stages=6, persistent=false")); });
  expect("both", [] {
    call_under("stages=5", product().with_plan("producer_warps=1, consumer_registers=0"));
  });
}

/// Other users of shared memory do not fit beside the fewest slots, of which wgmma has two.
TEST(PlanError, NoRoomNextToTheFewestStages) {
  expect("TEGULA_PLAN, scratch",
         [] { call_under("stage_stores=1 persistent=0", row_of_products()); });
  expect("with_plan, scratch",
         [] { call(row_of_products().with_plan("stage_stores=1, persistent=0")); });
  const auto too_large = kernel("large", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 256, 256)) {
      auto acc = zeros<f32>(256, 256);
      for (auto k : steps(a.cols(), 512)) acc = dot(a(m, k), b(k, n), acc);
      c(m, n) = acc;
    }
  });
  expect("chosen", [&] { call(too_large); });
  expect("nothing fits", [&] { call_under("stages=2", too_large); });
}

/// The author's fields are never dropped.
TEST(PlanError, FieldsThatCannotBeHad) {
  expect("a field of wgmma's", [] {
    const auto copy = kernel("copy", [](In<bf16, 2> x, Out<bf16, 2> z) {
      for (auto [i, j] : grid(z, 64, 64)) z(i, j) = x(i, j);
    });
    copy.with_plan("num_warps=2, persistent=1")(tensor({64, 64}), tensor({64, 64}));
  });
  expect("two warpgroups and tiles by a counter",
         [] { call(product().with_plan("dynamic_scheduler=1, pingpong=1")); });
  expect("a rule", [] { call(product().with_plan("producer_warps=2")); });
}

/// A Schedule is carried out as it is, or refused with the rules against it or with the one that is
/// possible.
TEST(PlanError, SchedulesThatCannotBeHad) {
  const auto scheduled = [](const std::string& slots, const std::string& dot,
                            const std::string& stores = "") {
    call(
        product().with_plan("schedule sm_90a { roles producer(warps 4, regs 40) "
                            "consumer(warps 8, regs 232) dots dot#0 wgmma tiles serpentine "
                            "channel ab tma slots " +
                            slots + " load#0 load#1 " + stores +
                            " loop#0 { load#0 producer 0.0 load#1 producer 0.1 "
                            "dot#0 consumer " +
                            dot + " } }"));
  };
  EXPECT_NO_THROW(scheduled("4", "2.0")) << "a role's stages count from its first one";
  expect("a legal schedule that no plan gives", [&] { scheduled("4", "0.0 in_flight 2"); });
  expect("an illegal schedule", [&] { scheduled("4", "0.0 in_flight 4"); });
  expect("stores that do not fit",
         [&] { scheduled("4", "0.0 in_flight 1", "channel c store slots 3 store#0 columns 32"); });
  EXPECT_NO_THROW(scheduled("4", "0.0 in_flight 1", "channel c store slots 2 store#0 columns 32"));
}

/// A matmul whose tile `body` computes and stores, split in two.
template <class Body>
auto split(const Body& body) {
  return kernel("product",
                [=](In<bf16, 2> a, In<bf16, 2> b, InOut<f32, 2> c) {
                  for (auto [m, n] : grid(c, 64, 64)) body(a, b, c, m, n);
                })
      .with_plan("cluster_split_k=2");
}

Tile sums(const In<bf16, 2>& a, const In<bf16, 2>& b, const Index& m, const Index& n) {
  auto acc = zeros<f32>(64, 64);
  for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
  return acc;
}

using A = const In<bf16, 2>&;
using C = const InOut<f32, 2>&;
using I = const Index&;

/// Code after the loop that needs the rows of other CTAs.
TEST(PlanError, AccumulatorsThatCannotBeSliced) {
  expect("cluster_split_k, a fold over rows", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = sums(a, b, m, n);
      c(m, n) = acc - expand(max(acc, axis(0)), 0);
    }));
  });
  expect("cluster_split_k, a product of sums", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = cast<bf16>(sums(a, b, m, n));
      c(m, n) = dot(acc, b(slice(0, 64), n), zeros<f32>(64, 64));
    }));
  });
  expect("cluster_split_k, sums under a condition", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = sums(a, b, m, n);
      if_(a.cols() > 8, [&] { c(m, n) = acc; });
    }));
  });
  expect("cluster_split_k, old values", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = sums(a, b, m, n);
      c(m, n) = atomic_add(c(m, n), acc);
    }));
  });
}

/// Loops whose steps do not add alone, or cannot be told apart.
TEST(PlanError, StepsThatCannotBeShared) {
  expect("cluster_split_k, more than sums", [] {
    call(split([](A a, A b, C c, I m, I n) {
      auto acc = zeros<f32>(64, 64);
      for (auto k : steps(a.cols(), 64)) acc = max(0, dot(a(m, k), b(k, n), acc));
      c(m, n) = acc;
    }));
  });
  expect("cluster_split_k, a loop in a loop",
         [] { call(row_of_products().with_plan("cluster_split_k=2")); });
  expect("cluster_split_k, sums of a loop and of one in it", [] {
    call(split([](A a, A b, C c, I m, I n) {
      auto acc = zeros<f32>(64, 64);
      for (auto r : steps(a.rows(), 64)) {
        for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
        acc = acc + cast<f32>(r.first());
      }
      c(m, n) = acc;
    }));
  });
  expect("cluster_split_k, products under a condition", [] {
    call(split([](A a, A b, C c, I m, I n) {
      auto acc = zeros<f32>(64, 64);
      for (auto k : steps(a.cols(), 64))
        if_(k.first() > 8, [&] { acc = dot(a(m, k), b(k, n), acc); });
      c(m, n) = acc;
    }));
  });
  expect("cluster_split_k, two products on each other", [] {
    call(split([](A a, A b, C c, I m, I n) {
      auto acc = zeros<f32>(64, 64);
      for (auto k : steps(a.cols(), 64)) {
        const Tile first = dot(a(m, k), b(k, n), zeros<f32>(64, 64));
        acc = dot(cast<bf16>(first), b(k, n), acc);
      }
      c(m, n) = acc;
    }));
  });
  expect("cluster_split_k, a product of other sums", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile first = cast<bf16>(sums(a, b, m, n));
      auto acc = zeros<f32>(64, 64);
      for (auto k : steps(a.cols(), 64)) acc = dot(first, b(k, n), acc);
      c(m, n) = acc;
    }));
  });
}

/// Another program may have stored already what this one reads; or would store it, too.
TEST(PlanError, MemoryThatProgramsWouldShare) {
  expect("cluster_split_k, other rows of the result", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = sums(a, b, m, n);
      c(m, n) = acc + c(m.shifted(1), n);
    }));
  });
  expect("cluster_split_k, all and some rows of the result", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = sums(a, b, m, n), old = c(m, n);
      c(m, n) = acc + old + expand(max(old, axis(0)), 0);
    }));
  });
  expect("cluster_split_k, two stores", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = sums(a, b, m, n);
      c(m, n) = acc;
      c(n, m) = acc.T();
    }));
  });
  expect("cluster_split_k, a store and what is added to it", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = sums(a, b, m, n);
      c(m, n) = acc;
      atomic_add(c(n, m), acc.T());
    }));
  });
  expect("cluster_split_k, a row of the result", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = sums(a, b, m, n);
      c(m, n) = acc + c(slice(0, 1), n);
    }));
  });
  expect("cluster_split_k, a read behind a store", [] {
    call(split([](A a, A b, C c, I m, I n) {
      const Tile acc = sums(a, b, m, n);
      c(m, n) = acc;
      c(m, n) = acc + c(m, n);
    }));
  });
  expect("cluster_split_k, what is no sum", [] {
    call(split([](A a, A b, C c, I m, I n) {
      c(m, n) = sums(a, b, m, n);
      c(m, n) = cast<f32>(a(m, n));
    }));
  });
}

TEST(PlanError, SplitsOfOtherKernels) {
  expect("cluster_split_k, 3", [] { call(product().with_plan("cluster_split_k=3")); });
  expect("cluster_split_k, persistent",
         [] { call(product().with_plan("cluster_split_k=2, persistent=1")); });
  expect("cluster_split_k, 8 rows", [] {
    call(kernel("rows", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
           for (auto [m, n] : grid(c, 8, 64)) {
             auto acc = zeros<f32>(8, 64);
             for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
             c(m, n) = acc;
           }
         }).with_plan("cluster_split_k=8, swap_ab=0"));
  });
  expect("cluster_split_k, clusters", [] {
    call(kernel("clusters", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
           for (auto [m, n] : grid(c, 64, 64, cluster(2))) {
             auto acc = zeros<f32>(64, 64);
             for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
             c(cluster_slice(m), n) = cluster_reduce_scatter(acc, axis(0));
           }
         }).with_plan("cluster_split_k=2"));
  });
}

}  // namespace
}  // namespace tegula::plan_test
