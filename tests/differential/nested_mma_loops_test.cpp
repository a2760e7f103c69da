// Loops around mainloops.
#include <gtest/gtest.h>

#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::nested_mma_loops_test {
namespace {

class NestedMmaLoops : public test::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, NestedMmaLoops, testing::ValuesIn(test::devices()),
                         test::device_name);

/// By mma.sync: data that passes through shared memory after the MMAs is not overwritten by the
/// copies of the next iteration.
TEST_P(NestedMmaLoops, ReduceThroughSharedMemory) {
  constexpr int kTile = 64, kTiles = 5;
  Env with_plan = env();
  with_plan.plan = "wgmma=0 num_warps=4 warps_m=2 warps_n=2 stages=3";
  const EnvOverride scope(with_plan);
  // Y[m, j] = the sum over n in tile j of (A B)[m, n].
  const auto k = kernel("row_sums", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> Y) {
    for (auto m : grid(rows(Y), kTile))
      for (auto j : steps(kTiles, 1)) {
        Tile acc = zeros<f32>(kTile, kTile);
        for (auto l : steps(A.cols(), 32))
          acc = dot(A(m, l), B(l, slice(j.first() * kTile, kTile)), acc);
        Y(m, j) = sum(acc, axis(1));
      }
  });
  const Tensor A = integers({128, 96}, DType::bf16, 1),
               B = integers({96, kTile * kTiles}, DType::bf16, 2),
               Y = empty({128, kTiles}, DType::f32);
  k(stream(), A, B, Y);
  const auto all = test::product(A, B);
  std::vector<double> want(128 * kTiles);
  for (std::size_t i = 0; i < all.size(); ++i) want[i / kTile] += all[i];
  test::expect_equal(Y, want);
}

/// The positions of the outer loop's MMAs, and whether they add to the inner loop's accumulators.
struct Order {
  bool first, shares_sums;
};

/// An MMA next to an inner mainloop: its accumulator is not in flight while that loop waits for its
/// own.
TEST_P(NestedMmaLoops, MmasNextToAnInnerLoop) {
  constexpr int kTile = 128, kStep = 64, kInner = 3 * kStep;
  const Tensor A = integers({200, 512}, DType::bf16, 1), B = integers({512, 136}, DType::bf16, 2),
               C = empty({200, 136}, DType::f32);
  for (const Order order : {Order{true, true}, {false, true}, {true, false}, {false, false}}) {
    SCOPED_TRACE(testing::Message() << order.first << order.shares_sums);
    const auto k = kernel("nested", [order](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
      for (auto [m, n] : grid(C, kTile, kTile)) {
        Tile inner = zeros<f32>(kTile, kTile), outer = zeros<f32>(kTile, kTile);
        for (auto i : steps(A.cols(), kInner + kStep)) {
          const Index last = slice(i.first() + kInner, kStep);
          Tile& sum = order.shares_sums ? inner : outer;
          if (order.first) sum = dot(A(m, last), B(last, n), sum);
          for (auto l : steps(i.first(), i.first() + kInner, kStep))
            inner = dot(A(m, l), B(l, n), inner);
          if (!order.first) sum = dot(A(m, last), B(last, n), sum);
        }
        C(m, n) = inner + outer;
      }
    });
    k(stream(), A, B, C);
    test::expect_equal(C, test::product(A, B));
  }
}

}  // namespace
}  // namespace tegula::nested_mma_loops_test
