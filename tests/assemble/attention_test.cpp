// Attention is assembled: no spills, no stack, no warning of the assembler (C75xx). Needs ptxas.
#include <gtest/gtest.h>

#include "bench/attention_kernel.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::attention_test {
using namespace kernels;
namespace {

TEST_F(Assembled, Attention) {
  for (const int d : {64, 128, 256}) {
    SCOPED_TRACE(d);
    const Tensor Q = host({1, 1, 64, d}), K = host({1, 1, 64, d}), V = host({1, 1, 64, d}),
                 O = host({1, 1, 64, d});
    AttentionSpec causal;
    causal.mask = [](const Tile&, const Tile&, const Tile& q, const Tile& kv) { return q >= kv; };
    causal.kv_range = causal_range;
    causal.full_kv_range = causal_full;
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
  at_end.align_bottom_right = true;
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

/// Head dims between, and values of another one: separate tiles.
TEST_F(Assembled, AttentionOfOtherHeadDims) {
  struct Dim {
    int dim, head_dim_v;
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
    SCOPED_TRACE(testing::Message() << d.dim << " " << d.head_dim_v);
    const Tensor Q = host({1, 1, 64, d.dim}), K = host({1, 1, 64, d.dim}),
                 V = host({1, 1, 64, d.head_dim_v}), O = host({1, 1, 64, d.head_dim_v});
    const Attention attention({.mask = masks::sliding_window(Scalar<i32>(20))});
    expect_clean(traced("attention", [&] { attention(Q, K, V, O); }), "sm_90a", true);
  }
}

/// Programs that share keys, of one cluster and of several, of heads packed or not, with all that
/// may be requested.
TEST_F(Assembled, AttentionOfSharedKeys) {
  const Stream cpu(Device::cpu());
  const auto numbers = [](std::initializer_list<std::int64_t> shape) {
    return Tensor::zeros(Dims(shape), DType::f32, Device::cpu());
  };
  for (const int splits : {2, 6, 8, 28})
    for (const int d : {64, 128, 256})
      for (const int heads : {2, 8}) {
        SCOPED_TRACE(testing::Message() << splits << " " << d << " " << heads);
        const Attention attention(
            {.mask = masks::sliding_window(Scalar<i32>(700)), .align_bottom_right = true},
            {.split_kv = splits});
        const Tensor q = host({1, heads, 2, d}), kv = host({1, 2, 1024, d}),
                     o = host({1, heads, 2, d});
        const AttentionExtras extras{numbers({1, heads, 2}), numbers({1, heads, 2}),
                                     numbers({heads})};
        const ir::Kernel tile = traced("attention", [&] { attention(cpu, q, kv, kv, o, extras); });
        for (const runtime::Backend backend : here()) expect_clean(tile, "sm_90a", true, backend);
      }
}

/// Sequences one after another, and a group's heads in one tile, with all that may be requested.
TEST_F(Assembled, AttentionOfSequencesAndGroups) {
  const Stream cpu(Device::cpu());
  const auto numbers = [](std::initializer_list<std::int64_t> shape) {
    return Tensor::zeros(Dims(shape), DType::f32, Device::cpu());
  };
  const Attention attention({.mask = masks::causal()});
  for (const int d : {64, 128, 256}) {
    SCOPED_TRACE(d);
    const Tensor q = host({64, 4, d}), kv = host({64, 2, d}), o = host({64, 4, d});
    const Tensor starts = Tensor::zeros({2}, DType::i32, Device::cpu());
    const AttentionExtras extras{numbers({64, 4}), numbers({64, 4}), numbers({4})};
    const ir::Kernel varlen = traced(
        "attention", [&] { attention.varlen(cpu, q, kv, kv, o, {starts, starts, 64}, extras); });
    expect_clean(varlen, "sm_90a", true);
    EXPECT_GE(products_followed(varlen, 6), 6U);
    if (d == 128 && runtime::diagnose().finding("NVRTC").present)
      expect_clean(varlen, "sm_90a", true, runtime::Backend::Nvrtc);
    const Tensor Q = host({1, 4, 1, d}), KV = host({1, 2, 64, d}), O = host({1, 4, 1, d});
    const AttentionExtras few{numbers({1, 4, 1}), numbers({1, 4, 1}), numbers({4})};
    expect_clean(traced("attention", [&] { attention(cpu, Q, KV, KV, O, few); }), "sm_90a", true);
  }
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
    // Dynamic and static tile schedulers.
    for (const char* plan : {"", "dynamic_scheduler=0"}) {
      Env changed = env();
      changed.plan = plan;
      const EnvOverride scope(changed);
      for (const runtime::Backend backend : here()) {
        const ir::Plan used = expect_clean(kernel, "sm_90a", true, backend);
        EXPECT_EQ(used.dynamic_scheduler, used.persistent && *plan == 0) << used.str();
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

/// Masks that are evaluated, for one pair of a block or for all of them.
TEST_F(Assembled, AttentionOverEvaluatedLists) {
  const Tensor table = Tensor::zeros({2, 2}, DType::i32, Device::cpu());
  const Mask cells = [table](const Tile&, const Tile&, const Tile& q, const Tile& kv) {
    return view<i32, 2>(table)(q / 128, kv / 128) != 0;
  };
  const Tensor queries = host({1, 1, 192, 64});
  // Before calls of attention: a kernel is dumped when it is first compiled.
  const auto coverage_of = [&](const Mask& mask) {
    const Attention attention({.mask = mask});
    return traced("attention_block_coverage",
                  [&] { attention.block_list(Stream(Device::cpu()), queries, queries); });
  };
  expect_clean(coverage_of(cells), "sm_90a", false);
  expect_clean(coverage_of(masks::and_(masks::causal(), cells)), "sm_90a", false);
  for (const int d : {64, 128}) {
    SCOPED_TRACE(d);
    const Tensor Q = host({1, 1, 192, d}), O = host({1, 1, 192, d});
    const Attention attention({.mask = cells});
    const ir::Kernel kernel = traced("attention", [&] { attention(Q, Q, Q, O); });
    for (const runtime::Backend backend : here())
      EXPECT_TRUE(expect_clean(kernel, "sm_90a", true, backend).persistent);
  }
}

/// Attention in the language, with a mask and a distance in its scores: many values depend on the
/// loop's index, which invites a compiler to carry them round the loop next to the wgmmas.
TEST_F(Assembled, AttentionWithDistances) {
  const auto attention = bench::attention_with_distances();
  const Tensor t = host({1, 1, 64, 128});
  expect_clean(traced("attention", [&] { attention(t, t, t, host({1, 1, 64, 128}), 0.1f); }),
               "sm_90a", true);
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
    request.target = ir::Target("sm_80");
    request.backend = runtime::Backend::Llvm;
    const runtime::Compilation k =
        assembled(traced("attention", [&] { attention(Q, K, V, O); }), request);
    EXPECT_LE(k.simt.info.smem_bytes, k.target->shared_bytes_per_cta) << k.plan.str();
    EXPECT_FALSE(k.cubin.empty());
  }
}

/// Attention's own 64, 48 and 32 keys a block, and 48 of a list. Regression: where making an op
/// moved the others, pipeline_cp_async lost a loop's carry, and the first reader of it failed.
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
      request.target = ir::Target("sm_80");
      request.backend = backend;
      EXPECT_FALSE(assembled(tile, request).cubin.empty());
    }
  }
}

}  // namespace
}  // namespace tegula::test::attention_test
