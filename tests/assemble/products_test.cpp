// Products that the library may choose are assembled: no spills, no stack, no warning of the
// assembler (C75xx: wgmmas one after another, ignored setmaxnreg). Needs ptxas.
#include <gtest/gtest.h>

#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/matmul.h"
#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"
#include "tests/gpu/two_products.h"

namespace tegula::test::products_test {
using namespace kernels;
namespace {

TEST_F(Assembled, Matmul) {
  const Tensor A = host({64, 64}), B = host({64, 64}), C = host({64, 64});
  for (const int bm : {64, 128})
    for (const int bn : {32, 64, 96, 128, 160, 192, 256}) {
      const MatmulConfig whole{.bm = bm, .bn = bn, .bk = 64},
          divided{.bm = bm, .bn = bn, .bk = 64, .split = SplitK::partials, .parts = 2};
      SCOPED_TRACE(whole.str());
      const Stream stream(Device::cpu());
      expect_clean(traced("matmul", [&] { matmul(stream, A, B, C, whole); }), "sm_90a", true);
      expect_clean(traced("matmul_split_k", [&] { matmul(stream, A, B, C, divided); }), "sm_90a",
                   true);
    }
}

/// Types of the tensor cores other than f16 and bf16, few rows with swapped operands, and gated
/// matmuls.
TEST_F(Assembled, MatmulTypes) {
  const std::vector<runtime::Backend> backends = here();
  const Stream stream(Device::cpu());
  for (const Case& c :
       {Case{DType::f8e4m3, DType::bf16, {128, 256, 128}},
        {DType::f8e5m2, DType::f32, {128, 192, 128}},
        {DType::f8e4m3, DType::bf16, {128, 128, 128}, {.fp32_promotion = true}},
        {DType::i8, DType::i32, {128, 256, 128}},
        {DType::f32, DType::f32, {128, 256, 32}, {.tf32 = true}},
        {DType::bf16, DType::bf16, {.bm = 16, .bn = 64, .bk = 64, .swap_ab = true}},
        {DType::f16, DType::f16, {.bm = 64, .bn = 128, .bk = 64, .swap_ab = true}},
        {DType::bf16, DType::bf16, {128, 224, 64}},
        {DType::bf16, DType::bf16, {128, 176, 64}},
        {DType::bf16, DType::bf16, {128, 112, 64}},
        {DType::bf16, DType::bf16, {192, 128, 64}},
        {DType::bf16, DType::bf16, {192, 192, 64}},
        {DType::bf16, DType::bf16, {.bm = 128, .bn = 64, .bk = 64, .stages = 8}},
        {DType::bf16, DType::bf16, {.bm = 64, .bn = 64, .bk = 64, .stages = 8}},
        {DType::bf16, DType::bf16, {.bm = 8, .bn = 128, .bk = 64, .swap_ab = true, .stages = 8}}}) {
    SCOPED_TRACE(std::string(name(c.operands)) + " " + c.config.str());
    const Tensor A = Tensor::zeros({64, 256}, c.operands, Device::cpu()),
                 B = Tensor::zeros({64, 256}, c.operands, Device::cpu()).transpose(0, 1),
                 C = Tensor::zeros({64, 64}, c.result, Device::cpu());
    const ir::Kernel kernel =
        traced("matmul", [&] { matmul(stream, A, B, C, c.config, c.options); });
    for (const runtime::Backend backend : backends) expect_clean(kernel, "sm_90a", true, backend);
  }
  // Rows that asynchronous copies cannot load are repacked first.
  const Tensor X = host({37, 67}), Y = host({67, 51}), Z = host({37, 51});
  const auto odd = [&](const char* kernel, const MatmulConfig& config) {
    return traced(kernel, [&] { matmul(stream, X, Y, Z, config); });
  };
  const ir::Kernel copies = odd("copy_two", {128, 128, 64}),
                   of_copies = odd("matmul", {64, 128, 64});
  for (const runtime::Backend backend : backends) {
    expect_clean(copies, "sm_90a", false, backend);
    expect_clean(of_copies, "sm_90a", true, backend);
  }
  // Or read as they are stored: all elements of a step are in registers at once.
  for (const int bn : {64, 128})
    for (const bool transposed : {false, true}) {
      const Tensor V = transposed ? host({51, 67}).transpose(0, 1) : Y;
      const ir::Kernel direct = traced("matmul", [&] {
        matmul(stream, X, V, Z, {.bm = 64, .bn = bn, .bk = 64, .operands = OperandPath::direct});
      });
      for (const runtime::Backend backend : backends)
        expect_clean(direct, "sm_90a", false, backend);
    }
  const auto gated =
      gated_matmul<bf16, bf16>([](Tile gate, Tile up, Index, Index) { return silu(gate) * up; });
  const Tensor A = host({64, 64}), W = host({64, 64}), C = host({64, 64});
  const ir::Kernel kernel =
      traced("matmul_gated", [&] { gated.run({128, 128, 64}, stream, A, W, W, C); });
  for (const runtime::Backend backend : backends) expect_clean(kernel, "sm_90a", true, backend);
}

/// Kernels for rows that are not 128-byte aligned, k contiguous in A only; vectors in the epilogue.
TEST_F(Assembled, MatmulOfSharedOperands) {
  const auto dense =
      fused_matmul<bf16, bf16>([](Tile acc, Index m, Index n, In<bf16, 1> bias, In<f32, 1> scales) {
        return gelu(acc * expand(scales(m), 1) + expand(cast<f32>(bias(n)), 0));
      });
  const Stream stream(Device::cpu());
  const Tensor A = host({64, 72}), B = host({72, 64}), C = host({64, 64});
  std::vector<MatmulConfig> configs{{128, 128, 64}, {128, 192, 64}, {128, 256, 64}, {192, 192, 64}};
  for (const int bm : {72, 88, 104, 120})
    configs.push_back({.bm = bm, .bn = 192, .bk = 64, .swap_ab = true});
  for (MatmulConfig config : configs) {
    config.multicast = Multicast::b;
    SCOPED_TRACE(config.str());
    const ir::Kernel plain = traced("matmul", [&] { matmul(stream, A, B, C, config); });
    const ir::Kernel fused = traced("matmul", [&] {
      dense.run(config, stream, A, B, C, host({64}),
                Tensor::zeros({64}, DType::f32, Device::cpu()));
    });
    for (const runtime::Backend backend : here()) {
      expect_clean(plain, "sm_90a", true, backend);
      expect_clean(fused, "sm_90a", true, backend);
    }
  }
}

/// Epilogue operands are loaded without shared memory, which the ring fills, and leave enough
/// registers.
TEST_F(Assembled, MatmulWithOperandsOfItsEpilogue) {
  const auto dense = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return gelu(acc + expand(cast<f32>(bias(n)), 0)) + cast<f32>(residual(m, n));
      });
  const auto scaled = fused_matmul<bf16, f32>(
      [](Tile acc, Index m, Index n, In<f32, 1> rows, In<f32, 1> columns, In<f32, 2> before) {
        return silu(acc * expand(rows(m), 1) * expand(columns(n), 0)) + before(m, n);
      });
  const Stream stream(Device::cpu());
  const Tensor A = host({64, 64}), B = host({64, 64}), C = host({64, 64});
  const auto wide = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::f32, Device::cpu());
  };
  const auto expect_persistent = [](const ir::Kernel& tile, runtime::Backend backend) {
    const ir::Plan plan = expect_clean(tile, "sm_90a", true, backend);
    EXPECT_TRUE(plan.persistent) << plan.str();
  };
  MatmulConfig high{192, 192, 64};
  high.multicast = Multicast::b;
  for (const MatmulConfig& config :
       {MatmulConfig{128, 192, 64}, MatmulConfig{128, 256, 64}, high}) {
    SCOPED_TRACE(config.str());
    const ir::Kernel half =
        traced("matmul", [&] { dense.run(config, stream, A, B, C, host({64}), host({64, 64})); });
    const ir::Kernel full = traced("matmul", [&] {
      scaled.run(config, stream, A, B, wide({64, 64}), wide({64}), wide({64}), wide({64, 64}));
    });
    for (const runtime::Backend backend : here()) {
      expect_persistent(half, backend);
      expect_persistent(full, backend);
    }
  }
}

/// Widths between powers of two, where k is contiguous in B.
TEST_F(Assembled, OddWidthsWithEpilogueTensors) {
  const auto dense = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return gelu(acc + expand(cast<f32>(bias(n)), 0)) + cast<f32>(residual(m, n));
      });
  const Stream stream(Device::cpu());
  const Tensor A = host({64, 64}), B = host({64, 64}).transpose(0, 1), C = host({64, 64});
  for (const int bm : {64, 128})
    for (const int bn : {96, 112, 160, 224}) {
      const MatmulConfig config{bm, bn, 64};
      SCOPED_TRACE(config.str());
      const ir::Kernel kernel =
          traced("matmul", [&] { dense.run(config, stream, A, B, C, host({64}), host({64, 64})); });
      for (const runtime::Backend backend : here()) expect_clean(kernel, "sm_90a", true, backend);
    }
}

/// Matmuls with split-K in a cluster; older targets have none.
TEST_F(Assembled, ClusterSplitKMatmul) {
  const std::vector<runtime::Backend> backends = here();
  const Stream stream(Device::cpu());
  using enum DType;
  for (const Case& c :
       {Case{bf16, bf16, {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::cluster, .parts = 8}},
        {bf16, bf16, {.bm = 64, .bn = 128, .bk = 64, .split = SplitK::cluster, .parts = 4}},
        {bf16, bf16, {.bm = 64, .bn = 256, .bk = 64, .split = SplitK::cluster, .parts = 2}},
        {bf16, bf16, {.bm = 128, .bn = 64, .bk = 64, .split = SplitK::cluster, .parts = 2}},
        {bf16, bf16, {.bm = 128, .bn = 128, .bk = 64, .split = SplitK::cluster, .parts = 4}},
        {bf16, bf16, {.bm = 128, .bn = 160, .bk = 64, .split = SplitK::cluster, .parts = 4}},
        {bf16, bf16, {.bm = 128, .bn = 256, .bk = 64, .split = SplitK::cluster, .parts = 2}},
        {bf16, bf16, {.bm = 128, .bn = 256, .bk = 64, .split = SplitK::cluster, .parts = 8}},
        {bf16,
         bf16,
         {.bm = 16, .bn = 128, .bk = 64, .split = SplitK::cluster, .parts = 4, .swap_ab = true}},
        {f16, f32, {.bm = 128, .bn = 192, .bk = 64, .split = SplitK::cluster, .parts = 2}},
        {f8e4m3, bf16, {.bm = 128, .bn = 256, .bk = 128, .split = SplitK::cluster, .parts = 4}},
        {f8e4m3,
         bf16,
         {.bm = 128, .bn = 128, .bk = 128, .split = SplitK::cluster, .parts = 2},
         {.fp32_promotion = true}},
        {i8, i32, {.bm = 128, .bn = 128, .bk = 128, .split = SplitK::cluster, .parts = 4}},
        {f32,
         f32,
         {.bm = 128, .bn = 128, .bk = 32, .split = SplitK::cluster, .parts = 2},
         {.tf32 = true}}}) {
    SCOPED_TRACE(std::string(name(c.operands)) + " " + c.config.str());
    const Tensor A = Tensor::zeros({64, 256}, c.operands, Device::cpu()),
                 B = Tensor::zeros({64, 256}, c.operands, Device::cpu()).transpose(0, 1),
                 C = Tensor::zeros({64, 64}, c.result, Device::cpu());
    const ir::Kernel kernel =
        traced("matmul_cluster_split_k", [&] { matmul(stream, A, B, C, c.config, c.options); });
    for (const runtime::Backend backend : backends) expect_clean(kernel, "sm_90a", true, backend);
    EXPECT_THROW(expect_clean(kernel, "sm_80", false), CompileError);
  }
}

/// Products in clusters of two that share operands: of every type, in halves by rows and by pieces.
TEST_F(Assembled, MulticastMatmul) {
  const std::vector<runtime::Backend> backends = here();
  const Stream stream(Device::cpu());
  using enum DType;
  const auto config = [](int bm, int bn, int bk, bool swap_ab = false) {
    return MatmulConfig{
        .bm = bm, .bn = bn, .bk = bk, .swap_ab = swap_ab, .multicast = Multicast::b};
  };
  const auto check = [&](const ir::Kernel& kernel) {
    for (const runtime::Backend backend : backends)
      EXPECT_TRUE(expect_clean(kernel, "sm_90a", true, backend).multicast);
  };
  for (const Case& c : {Case{bf16, bf16, config(128, 256, 64)},
                        {bf16, f32, config(128, 192, 64)},
                        {bf16, bf16, config(128, 224, 64)},
                        {bf16, bf16, config(128, 128, 64)},
                        {bf16, bf16, config(256, 128, 64)},
                        {f16, f16, config(128, 256, 64, true)},
                        {f8e4m3, bf16, config(128, 256, 128)},
                        {f8e4m3, bf16, config(128, 128, 128), {.fp32_promotion = true}},
                        {i8, i32, config(128, 256, 128)},
                        {f32, f32, config(128, 256, 32), {.tf32 = true}}})
    for (const bool transposed : {true, false}) {
      if (!transposed && size_bytes(c.operands) != 2) continue;
      SCOPED_TRACE(std::string(name(c.operands)) + " " + c.config.str());
      const Tensor A = Tensor::zeros({64, 256}, c.operands, Device::cpu()),
                   B = transposed
                           ? Tensor::zeros({64, 256}, c.operands, Device::cpu()).transpose(0, 1)
                           : Tensor::zeros({256, 64}, c.operands, Device::cpu()),
                   C = Tensor::zeros({64, 64}, c.result, Device::cpu());
      check(traced("matmul", [&] { matmul(stream, A, B, C, c.config, c.options); }));
    }
  for (MatmulConfig parts : {config(192, 192, 64), config(144, 192, 64, true),
                             config(176, 192, 64, true), config(208, 128, 64, true)}) {
    parts.split = SplitK::partials, parts.parts = 2;
    SCOPED_TRACE(parts.str());
    const Tensor A = host({64, 256}), B = host({256, 64}), C = host({64, 64});
    check(traced("matmul_split_k", [&] { matmul(stream, A, B, C, parts); }));
  }
  const auto gated = gated_matmul<tegula::bf16, tegula::bf16>(
      [](Tile gate, Tile up, Index, Index) { return silu(gate) * up; });
  const Tensor A = host({64, 64}), W = host({64, 64}), C = host({64, 64});
  check(traced("matmul_gated", [&] { gated.run(config(128, 128, 64), stream, A, W, W, C); }));
  const auto dense = fused_matmul<tegula::bf16, tegula::bf16>(
      [](Tile acc, Index m, Index n, In<tegula::bf16, 1> bias, In<tegula::bf16, 2> residual) {
        return gelu(acc + expand(cast<tegula::f32>(bias(n)), 0)) +
               cast<tegula::f32>(residual(m, n));
      });
  check(traced("matmul", [&] { dense.run(config(128, 256, 64), stream, A, W, C, host({64}), A); }));
}

/// The largest tile leaves the fewest registers.
/// What tests/gpu/register_operands_test.cpp launches ten thousand times stays asynchronous.
TEST_F(Assembled, TwoMmasOfOneLoop) {
  const Stream stream(Device::cpu());
  for (const auto& [D, step] : {std::pair{64, 64}, {128, 64}, {64, 128}}) {
    SCOPED_TRACE(testing::Message() << D << " in steps of " << step);
    const Tensor q = host({1, 128, D}), o = host({1, 128, D});
    const ir::Kernel kernel = traced("products", [&] { two_products(step)(stream, q, q, q, o); });
    for (const runtime::Backend backend : here()) expect_clean(kernel, "sm_90a", true, backend);
  }
}

TEST_F(Assembled, MatmulByNvrtc) {
  if (!runtime::diagnose().finding("NVRTC").present) GTEST_SKIP() << "no NVRTC here";
  // f16: earlier tests have traced bf16, and a kernel is traced once.
  const auto half = [] { return Tensor::zeros({64, 64}, DType::f16, Device::cpu()); };
  const Tensor A = half(), B = half(), C = half();
  const MatmulConfig whole{.bm = 128, .bn = 256, .bk = 64};
  expect_clean(traced("matmul", [&] { matmul(Stream(Device::cpu()), A, B, C, whole); }), "sm_90a",
               true, runtime::Backend::Nvrtc);
}

/// The path of older GPUs.
TEST_F(Assembled, ForSm80) {
  const Tensor A = host({64, 64}), B = host({64, 64}), C = host({64, 64});
  const MatmulConfig small{.bm = 64, .bn = 64, .bk = 32};  // not traced by the tests before
  expect_clean(traced("matmul", [&] { matmul(Stream(Device::cpu()), A, B, C, small); }), "sm_80",
               false);
}

}  // namespace
}  // namespace tegula::test::products_test
