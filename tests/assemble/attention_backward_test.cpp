// Attention's backward kernel is assembled: no spills, no stack, no warning of the assembler.
#include <gtest/gtest.h>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::attention_backward_test {
using namespace kernels;
namespace {

ir::Kernel traced_backward(const AttentionSpec& spec, std::int64_t dim, std::int64_t group) {
  const Attention attention(spec);
  const Tensor Q = host({1, 2, 256, dim}), K = host({1, 2 / group, 256, dim}),
               lse = Tensor::zeros({1, 2, 256}, DType::f32, Device::cpu());
  const AttentionInputGradients into{
      host({1, 2, 256, dim}), host({1, 2 / group, 256, dim}), host({1, 2 / group, 256, dim}), {}};
  return traced("attention_backward", [&] {
    attention.backward(Stream(Device::cpu()), Q, K, K, {.O = Q, .lse = lse}, {.O = Q}, into);
  });
}

TEST_F(Assembled, AttentionBackward) {
  for (const int dim : {16, 64, 96, 128})
    for (const Mask& mask : {Mask(), masks::causal(), masks::sliding_window(100),
                             masks::sink_window(4, 100), masks::prefix_lm(Scalar<i32>(100))})
      for (const int group : {1, 2}) {
        SCOPED_TRACE(testing::Message() << dim << " group " << group);
        expect_clean(traced_backward({.mask = mask}, dim, group), "sm_90a", true);
      }
}

TEST_F(Assembled, AttentionBackwardOfScores) {
  for (const int dim : {64, 128})
    for (const Score& score : {scores::alibi(2), scores::softcap(30.0f)}) {
      SCOPED_TRACE(dim);
      expect_clean(traced_backward({.mask = masks::causal(), .score = score}, dim, 1), "sm_90a",
                   true);
    }
}

}  // namespace
}  // namespace tegula::test::attention_backward_test
