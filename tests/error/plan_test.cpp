// Errors for requested plans that are not supported, recorded word for word in plan.txt.
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

/// Its ring stays live across the tiles of a row, each of which is stored before the next one.
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

/// Rings alone exceed the shared memory of a CTA: the error states the request, its size and the
/// maximum.
TEST(PlanError, MoreStagesThanFit) {
  expect("TEGULA_PLAN, wgmma", [] { call_under("stages=6", product()); });
  expect("TEGULA_PLAN, mma.sync",
         [] { call_under("wgmma=0 stages=8 warps_m=2 warps_n=4", product()); });
  expect("with_plan", [] { call(product().with_plan("stages=6, persistent=false")); });
  expect("both", [] {
    call_under("stages=5", product().with_plan("producer_warps=1, consumer_registers=0"));
  });
}

/// Other uses of shared memory do not fit together with the minimum of two slots for wgmma.
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
TEST(PlanError, UnsupportedFields) {
  expect("a field of wgmma's", [] {
    const auto copy = kernel("copy", [](In<bf16, 2> x, Out<bf16, 2> z) {
      for (auto [i, j] : grid(z, 64, 64)) z(i, j) = x(i, j);
    });
    copy.with_plan("num_warps=2, persistent=1")(tensor({64, 64}), tensor({64, 64}));
  });
  expect("two warpgroups and tiles by a counter",
         [] { call(product().with_plan("dynamic_scheduler=1, pingpong=1")); });
  expect("clusters, persistent", [] {
    call(kernel("clusters", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
           for (auto [m, n] : grid(c, 64, 64, cluster(2))) {
             auto acc = zeros<f32>(64, 64);
             for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
             c(cluster_slice(m), n) = cluster_reduce_scatter(acc, axis(0));
           }
         }).with_plan("persistent=1"));
  });
  expect("a rule", [] { call(product().with_plan("producer_warps=2")); });
}

/// A Schedule is executed exactly, or rejected with the rules that it violates or with the
/// supported one.
TEST(PlanError, UnsupportedSchedules) {
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

}  // namespace
}  // namespace tegula::plan_test
