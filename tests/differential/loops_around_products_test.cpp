// A loop around a product loop, by mma.sync: what goes through shared memory behind the product is
// not overwritten by the copies of the next round.
#include <gtest/gtest.h>

#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_products.h"

namespace tegula {
namespace {

class LoopsAroundProducts : public test::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, LoopsAroundProducts, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(LoopsAroundProducts, ReduceThroughSharedMemory) {
  constexpr int kTile = 64, kTiles = 5;
  Env with_plan = env();
  with_plan.plan = "wgmma=0 warps=4 warps_m=2 warps_n=2 stages=3";
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

}  // namespace
}  // namespace tegula
