// Products whose steps the plan has a cluster share are assembled, by both emitters: no spills, no
// stack, no warning of the assembler (C75xx). Needs ptxas.
#include <gtest/gtest.h>

#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"

namespace tegula::cluster_split_k_test {
namespace {

using namespace test;

void expect_clean_split(const ir::Kernel& tile, int programs) {
  SCOPED_TRACE(programs);
  Env with = env();
  with.plan = "cluster_split_k=" + std::to_string(programs);
  const EnvOverride scope(with);
  for (const runtime::Backend backend : here())
    EXPECT_EQ(expect_clean(tile, "sm_90a", true, backend).cluster_split_k, programs);
}

TEST_F(Assembled, SplitMatmuls) {
  const Stream stream(Device::cpu());
  const Tensor A = host({64, 64}), B = host({64, 64}), C = host({64, 64}), bias = host({64});
  for (const auto& [rows, columns] :
       {std::pair{64, 64}, {64, 128}, {128, 128}, {128, 256}, {256, 128}, {16, 128}}) {
    SCOPED_TRACE(testing::Message() << rows << "x" << columns);
    const int bm = rows, bn = columns;
    const auto dense = kernel("dense", [=](In<bf16, 2> a, In<bf16, 2> b, In<bf16, 1> add,
                                           In<bf16, 2> residual, Out<bf16, 2> c) {
      for (auto [m, n] : grid(c, bm, bn, group_m(8))) {
        auto acc = zeros<f32>(bm, bn);
        for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
        c(m, n) = silu(acc + expand(cast<f32>(add(n)), 0)) + cast<f32>(residual(m, n));
      }
    });
    const ir::Kernel tile = traced("dense", [&] { dense(stream, A, B, bias, A, C); });
    // Half of such a tile beside a residual spills, as nothing of it is stored by blocks of
    // columns.
    const bool is_large = bm * bn > 128 * 128;
    for (const int programs : {2, 4, 8})
      if (!is_large || programs > 2) expect_clean_split(tile, programs);
  }
}

TEST_F(Assembled, SplitGatedMatmuls) {
  const Stream stream(Device::cpu());
  const Tensor A = host({64, 64}), B = host({64, 64}), C = host({64, 64});
  const auto gated =
      kernel("gated", [](In<bf16, 2> a, In<bf16, 2> b, In<bf16, 2> g, Out<bf16, 2> c) {
        for (auto [m, n] : grid(c, 128, 64)) {
          auto up = zeros<f32>(128, 64), gate = zeros<f32>(128, 64);
          for (auto k : steps(a.cols(), 64)) {
            up = dot(a(m, k), b(k, n), up);
            gate = dot(a(m, k), g(k, n), gate);
          }
          c(m, n) = up * silu(gate);
        }
      });
  const ir::Kernel tile = traced("gated", [&] { gated(stream, A, B, B, C); });
  for (const int programs : {2, 4, 8}) expect_clean_split(tile, programs);
}

}  // namespace
}  // namespace tegula::cluster_split_k_test
