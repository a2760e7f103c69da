// Ping-pong matmuls are assembled: no spills, no stack, no warning of the assembler (C75xx: wgmmas
// serialised, ignored setmaxnreg). Needs ptxas.
#include <gtest/gtest.h>

#include <span>

#include "tegula/kernels/fused_matmul.h"
#include "tests/assemble/assembled.h"

namespace tegula::pingpong_test {
using namespace kernels;
namespace {

using test::Assembled;
using test::Case;
using test::expect_clean;
using test::here;
using test::host;
using test::traced;

/// Ping-pong matmuls: plain, multicast, with epilogue operands, and gated.
TEST_F(Assembled, PingpongMatmul) {
  const std::vector<runtime::Backend> backends = here();
  const Stream stream(Device::cpu());
  using enum DType;
  const auto config = [](int bm, int bn, int bk, bool shared = false) {
    return MatmulConfig{.bm = bm,
                        .bn = bn,
                        .bk = bk,
                        .multicast = shared ? Multicast::b : Multicast::none,
                        .pingpong = true};
  };
  const auto check = [&](const ir::Kernel& kernel, std::span<const runtime::Backend> by) {
    for (const runtime::Backend backend : by)
      EXPECT_TRUE(expect_clean(kernel, "sm_90a", true, backend).pingpong);
  };
  const auto dense = [](Tile acc, Index m, Index n, In<tegula::bf16, 1> bias,
                        In<tegula::bf16, 2> residual) {
    return gelu(acc + expand(cast<tegula::f32>(bias(n)), 0)) + cast<tegula::f32>(residual(m, n));
  };
  const auto half = fused_matmul<tegula::bf16, tegula::bf16>(dense);
  const auto eight = fused_matmul<tegula::f8e4m3, tegula::bf16>(dense);
  for (const Case& c : {Case{bf16, bf16, config(128, 128, 64)},
                        {bf16, bf16, config(128, 128, 64, true)},
                        {bf16, f32, config(64, 256, 64)},
                        {f16, f16, config(256, 64, 64)},
                        {DType::f8e4m3, bf16, config(128, 128, 128)},
                        {DType::f8e4m3, bf16, config(128, 128, 128, true)},
                        {DType::f8e4m3, bf16, config(64, 128, 128), {.fp32_promotion = true}},
                        {i8, i32, config(128, 128, 128)},
                        {f32, f32, config(128, 128, 32), {.tf32 = true}}}) {
    SCOPED_TRACE(std::string(name(c.operands)) + " " + c.config.str());
    const Tensor A = Tensor::zeros({64, 256}, c.operands, Device::cpu()),
                 B = Tensor::zeros({64, 256}, c.operands, Device::cpu()).transpose(0, 1),
                 C = Tensor::zeros({64, 64}, c.result, Device::cpu());
    check(traced("matmul", [&] { matmul(stream, A, B, C, c.config, c.options); }), backends);
    if (c.result != bf16 || c.options.fp32_promotion) continue;
    check(traced("matmul",
                 [&] {
                   if (c.operands == bf16)
                     half.run(c.config, stream, A, B, C, host({64}), host({64, 64}));
                   if (c.operands != bf16)
                     eight.run(c.config, stream, A, B, C, host({64}), host({64, 64}));
                 }),
          backends);
  }
  const auto gated = gated_matmul<tegula::bf16, tegula::bf16>(
      [](Tile gate, Tile up, Index, Index) { return silu(gate) * up; });
  const Tensor A = host({64, 64}), W = host({64, 64}), C = host({64, 64});
  const auto halves = [&](const MatmulConfig& c) {
    return traced("matmul_gated", [&] { gated.run(c, stream, A, W, W, C); });
  };
  check(halves(config(64, 128, 64)), backends);
  // An output tile of 128 rows takes twice the registers, which NVVM does not have.
  check(halves(config(128, 64, 64)), std::span(backends).first(1));
}

}  // namespace
}  // namespace tegula::pingpong_test
