// Products of few rows that the compiler transposes are assembled: no spills, no stack, no warning
// of the assembler (C75xx). Needs ptxas.
#include <gtest/gtest.h>

#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"

namespace tegula::swap_ab_test {
namespace {

using namespace test;

TEST_F(Assembled, SwappedMatmuls) {
  const Stream stream(Device::cpu());
  const Tensor A = host({64, 64}), B = host({64, 64}), C = host({64, 64});
  for (const auto& [bm, bn] : {std::pair{8, 64}, {16, 128}, {32, 256}, {48, 128}}) {
    SCOPED_TRACE(testing::Message() << bm << "x" << bn);
    const int rows = bm, columns = bn;
    const auto few = kernel("few", [=](In<bf16, 2> a, In<bf16, 2> b, Out<bf16, 2> c) {
      for (auto [m, n] : grid(c, rows, columns)) {
        auto acc = zeros<f32>(rows, columns);
        for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
        c(m, n) = silu(acc);
      }
    });
    const ir::Kernel tile = traced("few", [&] { few(stream, A, B, C); });
    for (const runtime::Backend backend : here())
      EXPECT_TRUE(expect_clean(tile, "sm_90a", true, backend).swap_ab);
  }
}

/// Heights up to which accumulators of two, three and four warpgroups fit.
TEST_F(Assembled, TallExchangedMatmuls) {
  const Stream stream(Device::cpu());
  for (const DType type : {DType::bf16, DType::f8e4m3})
    for (const auto& [bm, bn] : {std::pair{136, 128}, {248, 128}, {200, 192}, {136, 256}}) {
      const Tensor A = Tensor::zeros({64, 256}, type, Device::cpu()),
                   B = Tensor::zeros({64, 256}, type, Device::cpu()).transpose(0, 1);
      const int bk = 128 / size_bytes(type);
      const MatmulConfig whole{.bm = bm, .bn = bn, .bk = bk, .swap_ab = true},
          parts{
              .bm = bm, .bn = bn, .bk = bk, .split = SplitK::partials, .parts = 2, .swap_ab = true};
      SCOPED_TRACE(std::string(name(type)) + " " + whole.str());
      const Tensor C = host({64, 64});
      for (const auto& [kernel, config] : {std::pair{"matmul", whole}, {"matmul_split_k", parts}}) {
        const ir::Kernel tile = traced(kernel, [&] { matmul(stream, A, B, C, config); });
        expect_clean(tile, "sm_90a", true);
      }
    }
}

}  // namespace
}  // namespace tegula::swap_ab_test
