// Results stored by TMA are assembled: no spills, no stack, no warning of the assembler (C75xx).
// Needs ptxas.
#include <gtest/gtest.h>

#include "support/env.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/masks.h"
#include "tests/assemble/assembled.h"

namespace tegula::tma_store_test {
using namespace kernels;
namespace {

using namespace test;

void expect_stored(const ir::Kernel& tile, bool by_wide_blocks = true) {
  for (const std::string plan : {"tma_store=1", "tma_store=1 epilogue_tile_n=64"}) {
    if (plan != "tma_store=1" && !by_wide_blocks) continue;
    SCOPED_TRACE(plan);
    Env changed = env();
    changed.plan = plan;
    const EnvOverride scope(changed);
    for (const runtime::Backend backend : here())
      EXPECT_TRUE(expect_clean(tile, "sm_90a", true, backend).tma_store);
  }
}

TEST_F(Assembled, MatmulsStoredByTma) {
  const Stream stream(Device::cpu());
  const Tensor A = host({64, 64}), B = host({64, 64}).transpose(0, 1), C = host({64, 64});
  const auto dense = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return gelu(acc + expand(cast<f32>(bias(n)), 0)) + cast<f32>(residual(m, n));
      });
  for (const MatmulConfig& c : {MatmulConfig{.bm = 128, .bn = 256, .bk = 64},
                                {.bm = 128, .bn = 128, .bk = 64, .pingpong = true},
                                {.bm = 192, .bn = 128, .bk = 64}}) {
    SCOPED_TRACE(c.str());
    expect_stored(traced("matmul", [&] { matmul(stream, A, B, C, c); }));
    // An output tile of 128 rows and 64 columns takes more registers than a thread has left.
    expect_stored(
        traced("matmul", [&] { dense.run(c, stream, A, B, C, host({64}), host({64, 64})); }),
        !c.pingpong);
  }
}

TEST_F(Assembled, MatmulsAddedByTma) {
  const auto added = [](auto out, int bn) {
    using O = decltype(out);
    return kernel("added", [=](In<bf16, 2> A, In<bf16, 2> B, InOut<O, 2> C) {
      for (auto [s, m, n] : grid({full<i32>(4), C.rows(), C.cols()}, 1, 128, bn)) {
        auto acc = zeros<f32>(128, bn);
        for (auto k : steps(A.cols(), 64).chunk(s.first(), 4)) acc = dot(A(m, k), B(k, n), acc);
        atomic_add(C(m, n), acc);
      }
    });
  };
  const Stream stream(Device::cpu());
  const Tensor A = host({64, 64}), B = host({64, 64});
  const auto of = [](DType dtype) { return Tensor::zeros({64, 64}, dtype, Device::cpu()); };
  expect_stored(traced("added", [&] { added(bf16(), 256)(stream, A, B, of(DType::bf16)); }));
  expect_stored(traced("added", [&] { added(f32(), 128)(stream, A, B, of(DType::f32)); }), false);
}

TEST_F(Assembled, AttentionStoredByTma) {
  for (const auto& [tiles, dim] :
       {std::pair{AttentionTileShape{128, 128}, 128}, {{128, 176}, 128}, {{192, 128}, 64}}) {
    SCOPED_TRACE(testing::Message() << tiles.block_q << "x" << tiles.block_kv);
    const Tensor t = host({1, 2, 64, dim}), O = host({1, 2, 64, dim});
    const Attention attention({.mask = masks::causal()}, {.tiles = tiles});
    expect_stored(traced("attention", [&] { attention(t, t, t, O); }));
  }
}

}  // namespace
}  // namespace tegula::tma_store_test
