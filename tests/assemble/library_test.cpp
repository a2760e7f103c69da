// What the library may choose is assembled: no spills, no stack, no warning of the assembler
// (C75xx: wgmmas one after another, ignored setmaxnreg). Needs ptxas.
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/attention_kernel.h"
#include "ir/text.h"
#include "runtime/doctor.h"
#include "runtime/jit_steps.h"
#include "support/env.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/gated_matmul.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"
#include "tests/gpu/two_products.h"

namespace tegula::test {
namespace {

TEST_F(Assembled, Matmul) {
  const Tensor A = host({64, 64}), B = host({64, 64}), C = host({64, 64});
  for (const int bm : {64, 128})
    for (const int bn : {32, 64, 96, 128, 160, 192, 256}) {
      const MatmulConfig whole{bm, bn, 64, 1}, divided{bm, bn, 64, 2};
      SCOPED_TRACE(whole.str());
      const Stream stream(Device::cpu());
      expect_clean(traced("matmul", [&] { matmul(stream, A, B, C, whole); }), "sm_90a", true);
      expect_clean(traced("matmul_partial", [&] { matmul(stream, A, B, C, divided); }), "sm_90a",
                   true);
    }
}

/// What the tensor cores take beside halves, few rows by exchanged operands, and gated products.
TEST_F(Assembled, MatmulTypes) {
  const std::vector<runtime::Backend> backends = here();
  const Stream stream(Device::cpu());
  for (const Case& c : {Case{DType::f8e4m3, DType::bf16, {128, 256, 128}},
                        {DType::f8e5m2, DType::f32, {128, 192, 128}},
                        {DType::f8e4m3, DType::bf16, {128, 128, 128}, {.promoted = true}},
                        {DType::i8, DType::i32, {128, 256, 128}},
                        {DType::f32, DType::f32, {128, 256, 32}, {.tf32 = true}},
                        {DType::bf16, DType::bf16, {16, 64, 64, 1, true}},
                        {DType::f16, DType::f16, {64, 128, 64, 1, true}},
                        {DType::bf16, DType::bf16, {128, 224, 64}},
                        {DType::bf16, DType::bf16, {128, 176, 64}},
                        {DType::bf16, DType::bf16, {128, 112, 64}},
                        {DType::bf16, DType::bf16, {192, 128, 64}},
                        {DType::bf16, DType::bf16, {192, 192, 64}},
                        {DType::bf16, DType::bf16, {128, 64, 64, 1, false, false, 8}},
                        {DType::bf16, DType::bf16, {64, 64, 64, 1, false, false, 8}},
                        {DType::bf16, DType::bf16, {8, 128, 64, 1, true, false, 8}}}) {
    SCOPED_TRACE(std::string(name(c.operands)) + " " + c.config.str());
    const Tensor A = Tensor::zeros({64, 256}, c.operands, Device::cpu()),
                 B = Tensor::zeros({64, 256}, c.operands, Device::cpu()).transpose(0, 1),
                 C = Tensor::zeros({64, 64}, c.result, Device::cpu());
    const ir::Kernel kernel =
        traced("matmul", [&] { matmul(stream, A, B, C, c.config, c.options); });
    for (const runtime::Backend backend : backends) expect_clean(kernel, "sm_90a", true, backend);
  }
  // Rows that nothing asynchronous can bring are copied first.
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
  // Or read as they lie: all elements of a step are in registers at once.
  for (const int bn : {64, 128})
    for (const bool transposed : {false, true}) {
      const Tensor V = transposed ? host({51, 67}).transpose(0, 1) : Y;
      const ir::Kernel direct = traced("matmul", [&] {
        matmul(stream, X, V, Z, {.bm = 64, .bn = bn, .bk = 64, .direct = true});
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

/// What is taken for rows across lines, k contiguous in A only; vectors in the epilogue.
TEST_F(Assembled, MatmulOfSharedOperands) {
  const auto dense =
      fused_matmul<bf16, bf16>([](Tile acc, Index m, Index n, In<bf16, 1> bias, In<f32, 1> scales) {
        return gelu(acc * expand(scales(m), 1) + expand(cast<f32>(bias(n)), 0));
      });
  const Stream stream(Device::cpu());
  const Tensor A = host({64, 72}), B = host({72, 64}), C = host({64, 64});
  std::vector<MatmulConfig> configs{{128, 128, 64}, {128, 192, 64}, {128, 256, 64}, {192, 192, 64}};
  for (const int bm : {72, 88, 104, 120}) configs.push_back({bm, 192, 64, 1, true});
  for (MatmulConfig config : configs) {
    config.multicast = true;
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

/// What a product's sums meet comes without shared memory, for which a ring that is never empty
/// leaves no room, and leaves enough registers.
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
    expect_clean(tile, "sm_90a", true, backend);
    runtime::CompileRequest request;
    request.target = "sm_90a";
    request.backend = backend;
    runtime::CompiledKernel k;
    runtime::key(k, request);
    k.tile = ir::clone(tile);
    runtime::optimize(k, request);
    EXPECT_TRUE(k.plan.persistent) << k.plan.str();
  };
  MatmulConfig high{192, 192, 64};
  high.multicast = true;
  for (const MatmulConfig& config :
       {MatmulConfig{128, 192, 64}, MatmulConfig{128, 256, 64}, high}) {
    SCOPED_TRACE(config.str());
    const ir::Kernel half =
        traced("matmul", [&] { dense.run(config, stream, A, B, C, host({64}), host({64, 64})); });
    const ir::Kernel full = traced("matmul", [&] {
      scaled.run(config, stream, A, B, wide({64, 64}), wide({64}), wide({64}), wide({64, 64}));
    });
    for (const char* plan : {"", "warp_exchange=1"}) {
      Env changed = env();
      changed.plan = plan;
      const EnvOverride scope(changed);
      for (const runtime::Backend backend : here()) {
        expect_persistent(half, backend);
        expect_persistent(full, backend);
      }
    }
  }
}

/// Widths between powers of two, where k is contiguous in B.
TEST_F(Assembled, OddWidthsBesideMatrices) {
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

/// Products whose parts of k are added in a cluster; older targets have none.
TEST_F(Assembled, ClusteredMatmul) {
  const std::vector<runtime::Backend> backends = here();
  const Stream stream(Device::cpu());
  using enum DType;
  for (const Case& c : {Case{bf16, bf16, {64, 64, 64, 8, false, true}},
                        {bf16, bf16, {64, 128, 64, 4, false, true}},
                        {bf16, bf16, {64, 256, 64, 2, false, true}},
                        {bf16, bf16, {128, 64, 64, 2, false, true}},
                        {bf16, bf16, {128, 128, 64, 4, false, true}},
                        {bf16, bf16, {128, 160, 64, 4, false, true}},
                        {bf16, bf16, {128, 256, 64, 2, false, true}},
                        {bf16, bf16, {128, 256, 64, 8, false, true}},
                        {bf16, bf16, {16, 128, 64, 4, true, true}},
                        {f16, f32, {128, 192, 64, 2, false, true}},
                        {f8e4m3, bf16, {128, 256, 128, 4, false, true}},
                        {f8e4m3, bf16, {128, 128, 128, 2, false, true}, {.promoted = true}},
                        {i8, i32, {128, 128, 128, 4, false, true}},
                        {f32, f32, {128, 128, 32, 2, false, true}, {.tf32 = true}}}) {
    SCOPED_TRACE(std::string(name(c.operands)) + " " + c.config.str());
    const Tensor A = Tensor::zeros({64, 256}, c.operands, Device::cpu()),
                 B = Tensor::zeros({64, 256}, c.operands, Device::cpu()).transpose(0, 1),
                 C = Tensor::zeros({64, 64}, c.result, Device::cpu());
    const ir::Kernel kernel =
        traced("matmul_clustered", [&] { matmul(stream, A, B, C, c.config, c.options); });
    for (const runtime::Backend backend : backends) expect_clean(kernel, "sm_90a", true, backend);
    EXPECT_THROW(expect_clean(kernel, "sm_80", false), CompileError);
  }
}

/// Products in clusters of two that share operands: of every type, in halves by rows and by pieces.
TEST_F(Assembled, MulticastMatmul) {
  const std::vector<runtime::Backend> backends = here();
  const Stream stream(Device::cpu());
  using enum DType;
  const auto config = [](int bm, int bn, int bk, bool swapped = false) {
    return MatmulConfig{.bm = bm, .bn = bn, .bk = bk, .swapped = swapped, .multicast = true};
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
                        {f8e4m3, bf16, config(128, 128, 128), {.promoted = true}},
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

TEST_F(Assembled, Attention) {
  for (const int d : {64, 128, 256}) {
    SCOPED_TRACE(d);
    const Tensor Q = host({1, 1, 64, d}), K = host({1, 1, 64, d}), V = host({1, 1, 64, d}),
                 O = host({1, 1, 64, d});
    AttentionSpec causal;
    causal.mask = [](const Tile&, const Tile&, const Tile& q, const Tile& kv) { return q >= kv; };
    causal.range = causal_range;
    causal.full = causal_full;
    AttentionSpec derived, of_launch;  // the loop starts anywhere
    derived.mask = masks::sliding_window(20);
    of_launch.mask = masks::sliding_window(Scalar<i32>(20));
    const auto integers = [](const Dims& shape) {
      return Tensor::zeros(shape, DType::i32, Device::cpu());
    };
    AttentionSpec listed = derived;
    listed.blocks = BlockList{integers({1, 1, 1, 1}), integers({1, 1, 1})};
    listed.blocks->block_kv = d <= 128 ? 128 : 64;
    AttentionSpec with_gaps;
    with_gaps.mask = masks::sink_window(4, 20);
    for (const AttentionSpec& spec :
         {AttentionSpec{}, causal, derived, of_launch, listed, with_gaps}) {
      const Attention attention(spec);
      expect_clean(traced("attention", [&] { attention(Q, K, V, O); }), "sm_90a", true);
    }
  }
}

/// As many keys a step as fit, for many keys of which most are visited.
TEST_F(Assembled, AttentionOfManyKeys) {
  const std::vector<runtime::Backend> backends = here();
  AttentionSpec at_end{.mask = masks::causal()};
  at_end.queries_at_end = true;
  for (const int d : {64, 96, 128, 192, 256})
    for (const AttentionSpec& spec : {AttentionSpec{}, at_end}) {
      SCOPED_TRACE(testing::Message() << d << (spec.mask ? " causal" : ""));
      const Tensor Q = host({1, 1, 128, d}), K = host({1, 1, 8192, d}), O = host({1, 1, 128, d});
      const Attention attention(spec);
      const ir::Kernel tile = traced("attention", [&] { attention(Q, K, K, O); });
      for (const runtime::Backend backend : backends) {
        // NVVM keeps up to 28 bytes more than fit, and narrower blocks are slower.
        if (d == 256 && spec.mask && backend == runtime::Backend::Nvrtc) continue;
        expect_clean(tile, "sm_90a", true, backend);
      }
    }
}

/// Two comparisons for a score: none becomes a branch that copies a sum in flight (C7514).
TEST_F(Assembled, AttentionUnderTwoComparisons) {
  const Tensor t = host({1, 1, 64, 128}), O = host({1, 1, 64, 128});
  const Attention attention({.mask = masks::prefix_lm(Scalar<i32>(20))});
  const ir::Kernel tile = traced("attention", [&] { attention(t, t, t, O); });
  for (const runtime::Backend backend : here()) expect_clean(tile, "sm_90a", true, backend);
}

/// Head dims between, and values of another one: tiles of their own.
TEST_F(Assembled, AttentionOfOtherHeadDims) {
  struct Dim {
    int dim, value_dim;
  };
  for (const Dim d : {Dim{40, 40},
                      {72, 72},
                      {80, 80},
                      {96, 96},
                      {112, 112},
                      {160, 160},
                      {200, 200},
                      {192, 192},
                      {192, 128},
                      {64, 256},
                      {256, 64}}) {
    SCOPED_TRACE(testing::Message() << d.dim << " " << d.value_dim);
    const Tensor Q = host({1, 1, 64, d.dim}), K = host({1, 1, 64, d.dim}),
                 V = host({1, 1, 64, d.value_dim}), O = host({1, 1, 64, d.value_dim});
    const Attention attention({.mask = masks::sliding_window(Scalar<i32>(20))});
    expect_clean(traced("attention", [&] { attention(Q, K, V, O); }), "sm_90a", true);
  }
}

/// Sequences one behind the other, and a group's heads in one tile, with all that may be asked for.
TEST_F(Assembled, AttentionOfSequencesAndGroups) {
  const Stream cpu(Device::cpu());
  const auto numbers = [](std::initializer_list<std::int64_t> shape) {
    return Tensor::zeros(Dims(shape), DType::f32, Device::cpu());
  };
  const Attention attention({.mask = masks::causal()});
  for (const int d : {64, 128, 256}) {
    SCOPED_TRACE(d);
    const Tensor q = host({16, 4, d}), kv = host({16, 2, d}), o = host({16, 4, d});
    const Tensor starts = Tensor::zeros({2}, DType::i32, Device::cpu());
    const AttentionExtras extras{numbers({16, 4}), numbers({16, 4}), numbers({4})};
    const ir::Kernel varlen = traced(
        "attention", [&] { attention.varlen(cpu, q, kv, kv, o, {starts, starts, 16}, extras); });
    expect_clean(varlen, "sm_90a", true);
    EXPECT_GE(products_followed(varlen, 6), 6U);
    if (d == 128 && runtime::diagnose().finding("NVRTC").present)
      expect_clean(varlen, "sm_90a", true, runtime::Backend::Nvrtc);
    const Tensor Q = host({1, 4, 1, d}), KV = host({1, 2, 64, d}), O = host({1, 4, 1, d});
    const AttentionExtras few{numbers({1, 4, 1}), numbers({1, 4, 1}), numbers({4})};
    expect_clean(traced("attention", [&] { attention(cpu, Q, KV, KV, O, few); }), "sm_90a", true);
  }
}

/// What scores read and compute comes on top of what attention keeps in registers.
TEST_F(Assembled, AttentionWithScores) {
  const auto f32s = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::f32, Device::cpu());
  };
  const auto of_user = [](Tile s, Tile, Tile h, Tile q, Tile kv) {
    return s + cast<f32>(kv - q) * exp2(cast<f32>(h) * -0.5f);
  };
  const std::vector<std::pair<const char*, Score>> all{
      {"softcap", scores::softcap(30.0f)},
      {"softcap approximate", scores::softcap(30.0f, scores::Tanh::approximate)},
      {"alibi", scores::alibi(1)},
      {"bias", scores::bias(f32s({1, 1, 64, 64}))},
      {"t5", scores::t5_bias(f32s({32, 1}), 128, true)},
      {"distance", scores::distance_bias(f32s({128, 1}), 64)},
      {"forgetting", scores::forgetting(f32s({1, 1, 64}))},
      {"of a user", of_user},
      {"alibi of a tensor", scores::alibi(f32s({1}))},
      {"of heads", scores::head_bias(f32s({1}))}};
  const bool has_nvrtc = runtime::diagnose().finding("NVRTC").present;
  for (const auto& [name, score] : all)
    for (const int d : {64, 128, 192, 256}) {
      SCOPED_TRACE(testing::Message() << name << " " << d);
      const Tensor t = host({1, 1, 64, d}), O = host({1, 1, 64, d});
      const Attention attention({.mask = masks::causal(), .score = score});
      const ir::Kernel tile = traced("attention", [&] { attention(t, t, t, O); });
      expect_clean(tile, "sm_90a", true);
      if (d == 128 && has_nvrtc) expect_clean(tile, "sm_90a", true, runtime::Backend::Nvrtc);
    }
}

/// Lanes that compute for each other take registers beside limits on both sides, and beside what
/// finds the next block: by shared memory, and by shuffles.
TEST_F(Assembled, AttentionWithScoresOfDistances) {
  const Tensor table = Tensor::zeros({32, 1}, DType::f32, Device::cpu()),
               ids = Tensor::zeros({64}, DType::i32, Device::cpu());
  for (const Mask& mask :
       {masks::sliding_window(Scalar<i32>(20)), masks::and_(masks::causal(), masks::document(ids))})
    for (const int d : {64, 128, 192}) {
      SCOPED_TRACE(d);
      const Tensor t = host({1, 1, 64, d}), O = host({1, 1, 64, d});
      const Attention attention({.mask = mask, .score = scores::t5_bias(table, 128, true)});
      const ir::Kernel tile = traced("attention", [&] { attention(t, t, t, O); });
      for (const runtime::Backend backend : here()) expect_clean(tile, "sm_90a", true, backend);
    }
}

/// Terms that products begin with stay in registers beside what finds the next block, and beside
/// limits on both sides.
TEST_F(Assembled, AttentionWithTermsUnderMasks) {
  const Tensor ids = Tensor::zeros({64}, DType::i32, Device::cpu());
  const Tensor starts = Tensor::zeros({3}, DType::i32, Device::cpu());
  const bool has_nvrtc = runtime::diagnose().finding("NVRTC").present;
  for (const Mask& mask : {masks::prefix_lm(Scalar<i32>(20)), masks::packed_causal(ids, starts)})
    for (const Score& score : {scores::alibi(1), scores::relative_bias(0.1f)})
      for (const int d : {128, 192, 256}) {
        SCOPED_TRACE(d);
        const Tensor t = host({1, 1, 64, d}), O = host({1, 1, 64, d});
        const Attention attention({.mask = mask, .score = score});
        const ir::Kernel tile = traced("attention", [&] { attention(t, t, t, O); });
        expect_clean(tile, "sm_90a", true);
        if (has_nvrtc) expect_clean(tile, "sm_90a", true, runtime::Backend::Nvrtc);
      }
}

/// Powers of 2 beside the special function unit need registers where they are computed.
TEST_F(Assembled, AttentionWithSharedPowers) {
  Env shared = env();
  shared.plan = "exp2_share=6";
  const EnvOverride scope(shared);
  const Tensor t = host({1, 1, 64, 128}), O = host({1, 1, 64, 128});
  const Attention attention(
      {.mask = masks::causal(),
       .score = scores::softcap(20.0f, scores::Tanh::approximate)});  // not traced before
  const ir::Kernel tile = traced("attention", [&] { attention(t, t, t, O); });
  expect_clean(tile, "sm_90a", true);
  if (runtime::diagnose().finding("NVRTC").present)
    expect_clean(tile, "sm_90a", true, runtime::Backend::Nvrtc);
}

/// Masks that look things up: attention over the list, and the kernels that make it.
TEST_F(Assembled, AttentionOverDerivedLists) {
  const Tensor ids = Tensor::zeros({64}, DType::i32, Device::cpu());
  for (const int d : {64, 128, 256}) {
    SCOPED_TRACE(d);
    const Tensor Q = host({1, 1, 64, d}), O = host({1, 1, 64, d});
    const Attention attention({.mask = masks::and_(masks::causal(), masks::document(ids))});
    const auto call = [&] { attention(Q, Q, Q, O); };
    const ir::Kernel kernel = traced("attention", call);
    // Tiles by a counter, and dealt.
    for (const char* plan : {"", "dynamic=0"}) {
      Env changed = env();
      changed.plan = plan;
      const EnvOverride scope(changed);
      for (const runtime::Backend backend : here()) {
        const ir::Plan used = expect_clean(kernel, "sm_90a", true, backend);
        EXPECT_EQ(used.dynamic, used.persistent && *plan == 0) << used.str();
      }
    }
  }
  const Tensor Q = host({1, 1, 64, 64}), O = host({1, 1, 64, 64});
  // A kernel is traced once: a mask for each.
  const Attention bounds({.mask = masks::or_(masks::document(ids), masks::causal())}),
      lists({.mask = masks::or_(masks::document(ids), masks::dilated_window(20, 3))});
  expect_clean(traced("attention_key_bounds", [&] { bounds(Q, Q, Q, O); }), "sm_90a", false);
  expect_clean(traced("attention_block_list", [&] { lists(Q, Q, Q, O); }), "sm_90a", false);
}

/// Attention in the language, with a mask and a distance in its scores: many values depend on the
/// loop's index, which invites a compiler to carry them round the loop beside the wgmmas.
TEST_F(Assembled, AttentionWithDistances) {
  const auto attention = bench::attention_with_distances();
  const Tensor t = host({1, 1, 64, 128});
  expect_clean(traced("attention", [&] { attention(t, t, t, host({1, 1, 64, 128}), 0.1f); }),
               "sm_90a", true);
}

/// The largest tile leaves the fewest registers.
/// What tests/gpu/register_operands_test.cpp launches ten thousand times stays asynchronous.
TEST_F(Assembled, TwoProductsOfOneLoop) {
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
  // f16: the tests before have traced bf16, and a kernel is traced once.
  const auto half = [] { return Tensor::zeros({64, 64}, DType::f16, Device::cpu()); };
  const Tensor A = half(), B = half(), C = half();
  const MatmulConfig whole{128, 256, 64, 1};
  expect_clean(traced("matmul", [&] { matmul(Stream(Device::cpu()), A, B, C, whole); }), "sm_90a",
               true, runtime::Backend::Nvrtc);
}

/// Whatever head dim a caller has, the older GPUs' shared memory suffices.
TEST_F(Assembled, AttentionFitsSm80) {
  for (const int d : {64, 128, 256}) {
    SCOPED_TRACE(d);
    // f16: the tests before have traced bf16, and a kernel is traced once.
    const auto half = [&] { return Tensor::zeros({1, 1, 64, d}, DType::f16, Device::cpu()); };
    const Tensor Q = half(), K = half(), V = half(), O = half();
    AttentionSpec window;
    window.mask = masks::sliding_window(Scalar<i32>(20));
    const Attention attention(window);
    runtime::CompileRequest request;
    request.target = "sm_80";
    request.backend = runtime::Backend::Llvm;
    runtime::CompiledKernel k;
    runtime::key(k, request);
    k.tile = traced("attention", [&] { attention(Q, K, V, O); });
    runtime::optimize(k, request);
    EXPECT_LE(k.simt.info.smem_bytes, ir::shared_limit("sm_80")) << k.plan.str();
    runtime::emit(k, request);
    runtime::assemble(k, request);
    EXPECT_FALSE(k.cubin.empty());
  }
}

/// Attention's own 64, 48 and 32 keys a block, and 48 of a list: where making an op moved the
/// others, pipeline_copies lost a loop's carry, and whoever read it first failed.
TEST_F(Assembled, AttentionOfHeadDim256ForSm80) {
  using Score = decltype(AttentionSpec::score);
  const Score distance = [](const Tile& s, const Tile&, const Tile&, const Tile& q,
                            const Tile& kv) { return s + 0.1f * cast<f32>(kv - q); },
              cap = [](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
                return tanh(s * 0.1f) * 10.0f;
              };
  const auto numbers = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::i32, Device::cpu());
  };
  const AttentionSpec specs[] = {
      {},
      {.score = distance},
      {.score = cap},
      {.blocks = BlockList{numbers({1, 1, 2, 6}), numbers({1, 1, 2}), {}, 128, 48}}};
  for (const AttentionSpec& spec : specs) {
    SCOPED_TRACE(&spec - specs);
    const Tensor Q = host({1, 4, 256, 256}), K = host({1, 2, 256, 256}), O = host({1, 4, 256, 256});
    const Attention attention(spec);
    const ir::Kernel tile = traced("attention", [&] { attention(Q, K, K, O); });
    for (const runtime::Backend backend : here()) {
      runtime::CompileRequest request;
      request.target = "sm_80";
      request.backend = backend;
      runtime::CompiledKernel k;
      runtime::key(k, request);
      k.tile = ir::clone(tile);
      runtime::optimize(k, request);
      runtime::emit(k, request);
      runtime::assemble(k, request);
      EXPECT_FALSE(k.cubin.empty());
    }
  }
}

/// The path of older GPUs.
TEST_F(Assembled, ForSm80) {
  const Tensor A = host({64, 64}), B = host({64, 64}), C = host({64, 64});
  const MatmulConfig small{64, 64, 32, 1};  // not traced by the tests before
  expect_clean(traced("matmul", [&] { matmul(Stream(Device::cpu()), A, B, C, small); }), "sm_80",
               false);
}

}  // namespace
}  // namespace tegula::test
