// Errors of programs that wait for one another, of addresses and of inline PTX, recorded word for
// word in programs.txt.
#include <optional>

#include "expect_error.h"
#include "tegula/tegula.h"

namespace tegula::programs_test {
namespace {

test::Pinned& pinned() {
  static test::Pinned file("programs.txt");
  return file;
}

template <class F>
void expect(const char* name, const F& f,
            std::source_location at = std::source_location::current()) {
  pinned().check(name, test::error_of(f, at));
}

Tensor tensor(const Dims& shape, DType dtype = DType::f32) {
  return Tensor::zeros(shape, dtype, Device::cpu());
}

TEST(ProgramsError, ProgramsTogether) {
  const auto once = [](auto body) {
    return kernel("k", [body](Ptr<u8> bytes, Ptr<i32> words, Ptr<f32> numbers, Out<f32, 1> z) {
      for (auto i : grid(z, 16)) {
        body(Tile(bytes), Tile(words), Tile(numbers));
        z(i) = 1;
      }
    });
  };
  const auto trace = [&](auto body) {
    once(body).trace(tensor({1}, DType::u8), tensor({1}, DType::i32), tensor({1}), tensor({40}));
  };
  using T = const Tile&;
  expect("T0116 cas_type", [&] { trace([](T p, T, T) { atomic_cas(p, 0, 1); }); });
  expect("T0117 wait_type", [&] { trace([](T, T, T p) { wait_until(p, 1); }); });
  expect("T0117 wait_type of many",
         [&] { trace([](T, T p, T) { wait_until(p + arange(4), 1); }); });
  expect("T0118 atomic_order of a load",
         [&] { trace([](T, T p, T) { atomic_load(p, {}, MemoryOrder::release); }); });
  expect("T0118 atomic_order of a store",
         [&] { trace([](T, T p, T) { atomic_store(p, 1, {}, MemoryOrder::acquire); }); });
  expect("T0115 counter_type of a ticket", [&] { trace([](T, T p, T) { ticket(p, 7); }); });
  expect("T0119 ptx_model", [&] {
    trace([](T, T, T p) {
      store(p, ptx<f32>("mov.f32 $0, $1;", "=f,f", [](T x) { return x > 0; }, load(p)));
    });
  });
  expect("T0121 address_type", [&] { trace([](T, T p, T) { as_pointer<f32>(load(p)); }); });
  expect("T0121 address_type of a whole dimension",
         [&] { trace([](T, T, T p) { (void)view<f32, 1>(p, {3}, {1})(all); }); });
  expect("T0124 address_alignment", [&] {
    trace([](T, T, T p) { (void)view<f32, 1>(p, {3}, {1}, aligned(12))(slice(0, 8)); });
  });
  expect("T0108 pointer_required of a view of other elements",
         [&] { trace([](T, T, T p) { view<bf16, 1>(p, {3}, {1}); }); });
  expect("T0101 integers_only of an extent",
         [&] { trace([](T, T, T p) { view<f32, 1>(p, {2.5f}, {1}); }); });
  expect("T0101 integers_only of a stride",
         [&] { trace([](T, T, T p) { view<f32, 1>(p, {3}, {arange(4)}); }); });
  expect("T0506 bad_dim of a view at an address",
         [&] { trace([](T, T, T p) { view<f32, 1>(p, {3}, {1}).cols(); }); });
  expect("T0308 undefined_after of a view at an address", [&] {
    trace([](T, T n, T p) {
      std::optional<AddressView<f32, 1>> made;
      if_(load(n) > 0, [&] { made.emplace(view<f32, 1>(p, {3}, {1})); });
      (void)(*made)(slice(0, 8));
    });
  });
}

TEST(ProgramsError, FoldsOverACluster) {
  const auto in_cluster = [](auto f) {
    kernel("k", [=](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 16, cluster(2))) z(cluster_slice(i)) = f(x(i));
    }).trace(tensor({40}), tensor({40}));
  };
  expect("T0613 cluster_in_loop of a fold", [&] {
    in_cluster([](Tile t) {
      if_(sum(t) > 0, [&] { t = t + cluster_max(max(t)); });
      return t;
    });
  });
  expect("T0123 gathered_type", [&] {
    in_cluster([](Tile t) {
      cluster_gather(t.reshape({2, 2, 2, 2, 1, 1}));
      return t;
    });
  });
}

TEST(ProgramsError, GridBarriers) {
  expect("T0617 grid_barrier_place in front", [] {
    kernel("k", [](Out<f32, 1> z) {
      grid_barrier();
      for (auto i : grid(z, 16)) z(i) = 1;
    }).trace(tensor({40}));
  });
  expect("T0617 grid_barrier_place in a grid", [] {
    kernel("k", [](Out<f32, 1> z) {
      for (auto i : grid(z, 16)) {
        grid_barrier();
        z(i) = 1;
      }
    }).trace(tensor({40}));
  });
  expect("T0617 grid_barrier_place of clusters", [] {
    kernel("k", [](Out<f32, 1> z) {
      for (auto i : grid(z, 16, cluster(2))) z(cluster_slice(i)) = 1;
      grid_barrier();
      for (auto i : grid(z, 16)) z(i) = 1;
    }).trace(tensor({40}));
  });
  expect("T0606 after_grid behind a barrier", [] {
    kernel("k", [](Out<f32, 1> z) {
      for (auto i : grid(z, 16)) z(i) = 1;
      grid_barrier();
      z(0) = 1;
    }).trace(tensor({40}));
  });
}

TEST(ProgramsError, Prints) {
  expect("T0122 print_size", [] {
    kernel("k", [](Out<f32, 1> z) {
      for (auto i : grid(z, 16)) {
        print("{} {}", z.rows(), zeros<f32>(64, 64));
        z(i) = 1;
      }
    }).trace(tensor({40}));
  });
}

}  // namespace
}  // namespace tegula::programs_test
