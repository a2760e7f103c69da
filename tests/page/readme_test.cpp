// The README's kernels, compiled and run unchanged.
#include <gtest/gtest.h>
#include <tegula/kernels/attention.h>
#include <tegula/tegula.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/text.h"

namespace tegula::readme_test {
namespace {

class Readme : public testing::TestWithParam<Device> {};

std::int64_t lines(int block) {
  const std::string text = read_file(TEGULA_SNIPPETS "/readme_" + std::to_string(block) + ".inc");
  return std::ranges::count(text, '\n');
}

void softmax_of(const Tensor& X, const Tensor& Y) {
#include "readme_1.inc"
}

TEST_P(Readme, RowSoftmax) {
  constexpr std::int64_t kRows = 3, kColumns = 77;
  const Tensor x = Tensor::normal({kRows, kColumns}, DType::bf16, 0, 1, 1, GetParam()),
               y = Tensor::empty(x.shape(), DType::bf16, GetParam());
  softmax_of(x, y);
  const auto in = x.to_doubles(), out = y.to_doubles();
  for (std::int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < kColumns; ++c) sum += std::exp(in[r * kColumns + c]);
    for (std::int64_t c = 0; c < kColumns; ++c)
      EXPECT_NEAR(out[r * kColumns + c], std::exp(in[r * kColumns + c]) / sum, 1e-3);
  }
  EXPECT_LE(lines(1), 11) << "with what calls it";
}

void attention_of(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O) {
  const Stream stream(Q.device());
  const Dims rows{Q.size(0), Q.size(1), Q.size(2)};
  const Tensor lse = Tensor::empty(rows, DType::f32, Q.device()), dO = O;
  const auto like = [](const Tensor& t) { return Tensor::empty(t.shape(), t.dtype(), t.device()); };
  const Tensor dQ = like(Q), dK = like(K), dV = like(V);
#include "readme_2.inc"
}

/// Queries of zeros leave the scores to the lambda, and values that are their position tell which
/// keys were seen.
TEST_P(Readme, AttentionWithLambdas) {
  constexpr std::int64_t kHeads = 2, kLength = 45, kDim = 64;
  const Device device = GetParam();
  const Dims shape{1, kHeads, kLength, kDim};
  std::vector<f32> positions;
  for (std::int64_t i = 0; i < kHeads * kLength * kDim; ++i)
    positions.push_back(static_cast<f32>(i / kDim % kLength));
  const Tensor q = Tensor::zeros(shape, DType::bf16, device),
               k = Tensor::normal(shape, DType::bf16, 0, 1, 1, device),
               v = Tensor::from(positions, shape, device).cast(DType::bf16),
               o = Tensor::empty(shape, DType::bf16, device);
  attention_of(q, k, v, o);
  const auto out = o.to_doubles();
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t i = 0; i < kLength; ++i) {
      const double slope = std::exp2(-0.5 * static_cast<double>(h + 1));
      double sum = 0, mean = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        const double weight = std::exp(slope * static_cast<double>(j - i));
        sum += weight;
        mean += weight * static_cast<double>(j);
      }
      EXPECT_NEAR(out[(h * kLength + i) * kDim], mean / sum, 0.3) << h << " " << i;
    }
  EXPECT_LE(lines(2), 12);
}

INSTANTIATE_TEST_SUITE_P(Devices, Readme, testing::Values(Device::cpu(), Device::sim()),
                         [](const auto& p) { return p.param.str(); });

}  // namespace
}  // namespace tegula::readme_test
