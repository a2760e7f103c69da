// Attention with scores is assembled: no spills, no stack, no warning of the assembler (C75xx).
#include <gtest/gtest.h>

#include "runtime/doctor.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::attention_scores_test {
using namespace kernels;
namespace {

/// Registers for the operands of scores come on top of those that attention itself keeps.
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

/// Lanes that compute for each other take registers in addition to limits on both sides and to what
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

/// Accumulator-init terms stay in registers in addition to those that find the next block, and to
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

}  // namespace
}  // namespace tegula::test::attention_scores_test
