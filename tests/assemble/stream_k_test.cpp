// Both back ends assemble stream-K matmuls: no spills, no stack, no warning of the assembler, and
// no barrier for the partial tiles that CTAs exchange: a thread stores and loads the same elements
// of them.
#include "tegula/kernels/fused_matmul.h"
#include "tests/assemble/assembled.h"
#include "tests/placed_barriers.h"

namespace tegula::stream_k_test {
using namespace kernels;
namespace {

using namespace test;

class StreamKMatmul : public Assembled {};

/// Few rows have deep rings.
MatmulConfig config(int bm, int bn, int bk, bool swap_ab = false) {
  return {.bm = bm,
          .bn = bn,
          .bk = bk,
          .split = SplitK::stream,
          .parts = 3,
          .swap_ab = swap_ab,
          .stages = swap_ab ? 8 : 0};
}

TEST_F(StreamKMatmul, Types) {
  const std::vector<runtime::Backend> backends = here();
  const Stream stream(Device::cpu());
  constexpr DType half = DType::bf16, f8 = DType::f8e4m3;
  for (const Case& c : {Case{half, half, config(128, 256, 64)},
                        {half, DType::f32, config(128, 192, 64)},
                        {DType::f16, DType::f16, config(128, 160, 64)},
                        {half, half, config(128, 128, 64)},
                        {half, half, config(64, 256, 64)},
                        {half, half, config(64, 64, 64)},
                        {half, half, config(8, 128, 64, true)},
                        {half, half, config(16, 64, 64, true)},
                        {half, half, config(64, 128, 64, true)},
                        {f8, half, config(128, 256, 128)},
                        {f8, half, config(128, 128, 128), {.fp32_promotion = true}},
                        {DType::i8, DType::i32, config(128, 256, 128)},
                        {DType::f32, DType::f32, config(128, 256, 32), {.tf32 = true}}}) {
    SCOPED_TRACE(std::string(name(c.operands)) + " " + c.config.str());
    const Tensor A = Tensor::zeros({64, 256}, c.operands, Device::cpu()),
                 B = Tensor::zeros({64, 256}, c.operands, Device::cpu()).transpose(0, 1),
                 C = Tensor::zeros({64, 64}, c.result, Device::cpu());
    const ir::Kernel kernel =
        traced("matmul_stream_k", [&] { matmul(stream, A, B, C, c.config, c.options); });
    EXPECT_EQ(placed_barriers(kernel, "sm_90a"), 0);
    for (const runtime::Backend backend : backends) expect_clean(kernel, "sm_90a", true, backend);
    if (c.operands == half) {
      EXPECT_GT(products_followed(kernel, 5), 4u);
    }
  }
}

TEST_F(StreamKMatmul, Epilogue) {
  const Stream stream(Device::cpu());
  const auto dense = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return max(acc + expand(cast<f32>(bias(n)), 0), 0.0f) + residual(m, n);
      });
  for (const int bn : {128, 256}) {
    const ir::Kernel kernel = traced("matmul_stream_k", [&] {
      const Tensor A = host({64, 64}), C = host({64, 64});
      dense.run(config(128, bn, 64), stream, A, A, C, host({64}), host({64, 64}));
    });
    EXPECT_EQ(placed_barriers(kernel, "sm_90a"), 0);
    for (const runtime::Backend backend : here()) expect_clean(kernel, "sm_90a", true, backend);
  }
}

}  // namespace
}  // namespace tegula::stream_k_test
