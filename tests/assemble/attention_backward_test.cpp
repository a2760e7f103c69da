// Attention's backward kernel is assembled: no spills, no stack, no warning of the assembler.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::attention_backward_test {
using namespace kernels;
namespace {

struct Dims2 {
  std::int64_t k, v;
};

/// The main kernel of a dense call, or of one of packed sequences, for the wanted gradients.
ir::Kernel traced_backward(const AttentionSpec& spec, Dims2 dim, std::int64_t group,
                           bool is_packed = false, const char* wanted = "QKV",
                           const std::vector<CapturedGradient>& captured = {},
                           const AttentionNumerics& numerics = {}) {
  const Attention attention(spec, {}, numerics);
  const auto rows = [&](std::int64_t heads, std::int64_t d) {
    return is_packed ? host({256, heads, d}) : host({1, heads, 256, d});
  };
  const auto gradient = [&](char name, const Tensor& t) {
    return std::string(wanted).find(name) == std::string::npos ? Tensor() : t;
  };
  const Tensor Q = rows(2, dim.k), K = rows(2 / group, dim.k), V = rows(2 / group, dim.v),
               O = rows(2, dim.v),
               starts = Tensor::from(std::vector<i32>{0, 100, 256}, Device::cpu()),
               lse = Tensor::zeros(is_packed ? Dims{256, 2} : Dims{1, 2, 256}, DType::f32,
                                   Device::cpu());
  const AttentionInputGradients into{gradient('Q', rows(2, dim.k)),
                                     gradient('K', rows(2 / group, dim.k)),
                                     gradient('V', rows(2 / group, dim.v)),
                                     {},
                                     captured};
  const Stream stream(Device::cpu());
  return traced("attention_backward", [&] {
    if (is_packed)
      attention.varlen_backward(stream, Q, K, V, {starts, starts, 156}, {.O = O, .lse = lse},
                                {.O = O}, into);
    else
      attention.backward(stream, Q, K, V, {.O = O, .lse = lse}, {.O = O}, into);
  });
}

/// A mask of documents, whose block lists are derived, and one that has to be evaluated per head.
std::vector<Mask> listed_masks() {
  const Tensor ids = Tensor::zeros({256}, DType::i32, Device::cpu()),
               starts = Tensor::zeros({4}, DType::i32, Device::cpu()),
               table = Tensor::full({2, 4, 4}, 1, DType::i32, Device::cpu());
  return {masks::packed_causal(ids, starts), [=](Tile, Tile h, Tile q, Tile kv) {
            return fill_absent(view<i32, 3>(table)(h, q / 64, kv / 64), 0) != 0;
          }};
}

TEST_F(Assembled, AttentionBackward) {
  for (const int dim : {16, 64, 96, 128})
    for (const Mask& mask : {Mask(), masks::causal(), masks::sliding_window(100),
                             masks::sink_window(4, 100), masks::prefix_lm(Scalar<i32>(100))})
      for (const int group : {1, 2}) {
        SCOPED_TRACE(testing::Message() << dim << " group " << group);
        expect_clean(traced_backward({.mask = mask}, {dim, dim}, group), "sm_90a", true);
      }
}

/// The slopes of the last three differ between pairs.
TEST_F(Assembled, AttentionBackwardOfScores) {
  const Score square = [](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
    return s * s;
  };
  const Score power = [](const Tile& s, const Tile&, const Tile&, const Tile&, const Tile&) {
    return exp(s);
  };
  for (const int dim : {64, 128})
    for (const Score& score : {scores::alibi(2), scores::softcap(30.0f), square, power})
      for (const Mask& mask : {Mask(), masks::causal(), listed_masks().front()}) {
        SCOPED_TRACE(dim);
        expect_clean(traced_backward({.mask = mask, .score = score}, {dim, dim}, 1), "sm_90a",
                     true);
      }
}

TEST_F(Assembled, AttentionBackwardOfLists) {
  for (const int dim : {64, 128})
    for (const Mask& mask : listed_masks())
      for (const int group : {1, 2})
        for (const bool is_packed : {false, true}) {
          SCOPED_TRACE(testing::Message() << dim << " " << group << " " << is_packed);
          expect_clean(traced_backward({.mask = mask}, {dim, dim}, group, is_packed), "sm_90a",
                       true);
        }
}

TEST_F(Assembled, AttentionBackwardOfPackedSequences) {
  for (const int dim : {64, 128})
    for (const Mask& mask : {Mask(), masks::causal()})
      for (const int group : {1, 2})
        expect_clean(traced_backward({.mask = mask}, {dim, dim}, group, true), "sm_90a", true);
}

TEST_F(Assembled, AttentionBackwardOfWideHeads) {
  for (const Dims2& dim :
       {Dims2{136, 136}, {192, 128}, {192, 192}, {256, 128}, {256, 256}, {64, 256}, {128, 256}})
    for (const Mask& mask : {masks::causal(), listed_masks().front()})
      for (const int group : {1, 2})
        for (const char* wanted : {"V", "QK"}) {
          SCOPED_TRACE(testing::Message() << dim.k << " " << group << " " << wanted);
          expect_clean(traced_backward({.mask = mask}, dim, group, false, wanted), "sm_90a", true);
        }
}

/// All gradients in one launch with 32 queries per iteration.
TEST_F(Assembled, AttentionBackwardOfWideHeadsInOneLaunch) {
  for (const int group : {1, 2})
    for (const bool is_packed : {false, true}) {
      SCOPED_TRACE(testing::Message() << group << " " << is_packed);
      expect_clean(traced_backward({.mask = masks::causal()}, {192, 128}, group, is_packed),
                   "sm_90a", true);
    }
}

/// The launch whose rows are queries.
TEST_F(Assembled, AttentionBackwardInAFixedOrder) {
  for (const Dims2& dim : {Dims2{64, 64}, {128, 128}, {192, 128}, {256, 256}})
    for (const Mask& mask : {masks::causal(), listed_masks().front()})
      for (const int group : {1, 2})
        for (const bool is_packed : {false, true}) {
          SCOPED_TRACE(testing::Message() << dim.k << " " << group << " " << is_packed);
          expect_clean(traced_backward({.mask = mask}, dim, group, is_packed, "Q", {},
                                       {.deterministic = true}),
                       "sm_90a", true);
        }
}

/// From head dim 64 on registers spill, which T1501 reports.
TEST_F(Assembled, AttentionBackwardForSm80) {
  for (const int group : {1, 2}) {
    for (const int dim : {16, 32})
      expect_clean(traced_backward({.mask = masks::sliding_window(64)}, {dim, dim}, group), "sm_80",
                   false);
    const ir::Target sm_80("sm_80");
    runtime::CompileRequest request;
    request.target = sm_80;
    const runtime::Compilation k =
        assembled(traced_backward({.mask = masks::sliding_window(64)}, {128, 128}, group), request);
    EXPECT_FALSE(k.plan.wgmma);
    EXPECT_LE(k.simt.info.smem_bytes, sm_80->shared_bytes_per_cta);
  }
}

TEST_F(Assembled, AttentionBackwardOfCaptures) {
  const auto f32s = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::f32, Device::cpu());
  };
  const Tensor bias = host({1, 2, 256, 256}), wide = f32s({1, 2, 256, 256}),
               shared = host({1, 1, 256, 256}), table = f32s({256, 2}), heads = f32s({2}),
               f = f32s({1, 2, 256});
  struct Case {
    const char* name;
    Score score;
    Tensor of;
  };
  for (const Case& c : {Case{"bias", scores::bias(bias), bias},
                        {"f32 bias", scores::bias(wide), wide},
                        {"shared bias", scores::bias(shared), shared},
                        {"distances", scores::distance_bias(table, 0), table},
                        {"heads", scores::head_temperature(heads), heads},
                        {"keys and queries", scores::forgetting(f), f}})
    for (const int dim : {64, 128})
      for (const int group : {1, 2}) {
        SCOPED_TRACE(testing::Message() << c.name << " " << dim << " group " << group);
        const Tensor into = Tensor::zeros(c.of.shape(), c.of.dtype(), Device::cpu());
        expect_clean(
            traced_backward({.score = c.score}, {dim, dim}, group, false, "QKV", {{c.of, into}}),
            "sm_90a", true);
      }
  for (const Mask& mask : {masks::causal(), listed_masks().front()})
    expect_clean(traced_backward({.mask = mask, .score = scores::bias(bias)}, {128, 128}, 1, false,
                                 "QKV", {{bias, host({1, 2, 256, 256})}}),
                 "sm_90a", true);
}

}  // namespace
}  // namespace tegula::test::attention_backward_test
