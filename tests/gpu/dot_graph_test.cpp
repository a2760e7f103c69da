// Loops with graphs of dots on the GPU, by both back ends, compared with the interpreter: the
// benchmark's kernels for attention's gradients, linear attention and a fused MLP.
#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/dot_graph_kernels.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::dot_graph_test {
namespace {

class DotGraphs : public test::ByBackEnd {
 protected:
  /// Tensor cores add in another order than the interpreter.
  static void expect_close(const Tensor& got, const Tensor& want) {
    constexpr double kMaxError = 0.02;
    const auto a = got.to_doubles(), b = want.to_doubles();
    double scale = 0, most = 0;
    for (double v : b) scale = std::max(scale, std::abs(v));
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_TRUE(std::isfinite(a[i])) << i;
      most = std::max(most, std::abs(a[i] - b[i]));
    }
    EXPECT_GT(scale, 0);
    EXPECT_LE(most, kMaxError * scale);
  }
  static Tensor normal(std::initializer_list<std::int64_t> shape, std::uint64_t seed, Device d) {
    return Tensor::normal(Dims(shape), DType::bf16, 0, 0.5, seed, d);
  }
};
INSTANTIATE_TEST_SUITE_P(BackEnds, DotGraphs, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DotGraphs, AttentionGradients) {
  for (const int dim : {64, 128})
    for (const bool causal : {false, true})
      for (const int bq : {64, 128}) {
        SCOPED_TRACE(testing::Message() << dim << " " << causal << " " << bq);
        const auto kernel = bench::attention_gradients(bq, 128, causal);
        constexpr std::int64_t kHeads = 3, kLength = 384;
        std::vector<Tensor> results[2];
        for (const Device d : {Device::cpu(), Device::cuda()}) {
          const auto made = [&](std::uint64_t seed) {
            return normal({kHeads, kLength, dim}, seed, d);
          };
          const Tensor L = Tensor::uniform({kHeads, kLength}, DType::f32, 4, 6, 5, d),
                       D = Tensor::uniform({kHeads, kLength}, DType::f32, -1, 1, 6, d),
                       dQ = Tensor::zeros({kHeads, kLength, dim}, DType::f32, d),
                       dK = Tensor::zeros({kHeads, kLength, dim}, DType::bf16, d),
                       dV = Tensor::zeros({kHeads, kLength, dim}, DType::bf16, d);
          kernel(Stream(d), made(1), made(2), made(3), made(4), L, D, dQ, dK, dV, 0.2f);
          results[d.kind == DeviceKind::cpu ? 0 : 1] = {dQ, dK, dV};
        }
        for (std::size_t i = 0; i < 3; ++i) expect_close(results[1][i], results[0][i]);
      }
}

TEST_P(DotGraphs, LinearAttentionAndMlp) {
  Tensor o[2], y[2];
  const auto attention = bench::linear_attention(64);
  const auto mlp = bench::fused_mlp(128, 64);
  for (const Device d : {Device::cpu(), Device::cuda()}) {
    const int i = d.kind == DeviceKind::cpu ? 0 : 1;
    o[i] = Tensor::zeros({2, 200, 128}, DType::bf16, d);
    attention(Stream(d), normal({2, 200, 64}, 1, d), normal({2, 200, 64}, 2, d),
              normal({2, 200, 128}, 3, d), o[i]);
    y[i] = Tensor::zeros({200, 128}, DType::bf16, d);
    mlp(Stream(d), normal({200, 128}, 4, d), normal({128, 256}, 5, d), normal({256, 128}, 6, d),
        y[i]);
  }
  expect_close(o[1], o[0]);
  expect_close(y[1], y[0]);
}

}  // namespace
}  // namespace tegula::dot_graph_test
