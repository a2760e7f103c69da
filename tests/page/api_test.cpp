// Runs the calls of docs/api/README.md unchanged.
#include <tegula/kernels/attention.h>
#include <tegula/kernels/device_sort.h>
#include <tegula/kernels/fused_matmul.h>
#include <tegula/kernels/masks.h>
#include <tegula/kernels/moe.h>
#include <tegula/kernels/norm.h>

#include <algorithm>

#include "tests/page/page.h"

namespace tegula::page::api_test {
namespace {

constexpr std::int64_t kHeads = 2, kDim = 64;

class Api : public Page {
 protected:
  Stream stream{device()};
  Tensor random_of(const Dims& shape, double deviation = 1) {
    return Tensor::normal(shape, DType::bf16, 0, deviation, ++seed_, device());
  }
  /// Values that are positions, for queries of zeros: a row of O is the mean of the positions that
  /// it sees.
  static Tensor positions(const Dims& column, const Dims& shape) {
    return iota_of(column).broadcast_to(shape).contiguous().cast(DType::bf16);
  }

 private:
  std::uint64_t seed_ = 0;
};

double at(const std::vector<double>& values, std::int64_t i) {
  return values[static_cast<std::size_t>(i)];
}

/// Mean of the keys that a query sees through a causal window of 32 keys.
double mean_of_window(std::int64_t q) {
  return static_cast<double>(q + std::max<std::int64_t>(q - 31, 0)) / 2;
}

TEST_P(Api, AttentionWithMaskAndLse) {
  constexpr std::int64_t kLength = 70;
  const Dims shape{1, kHeads, kLength, kDim};
  const Tensor Q = zeros_of(shape, DType::bf16), K = random_of(shape),
               V = positions({kLength, 1}, shape), O = empty_of(shape, DType::bf16),
               lse = empty_of({1, kHeads, kLength});
#include "api_1.inc"
  const auto out = O.to_doubles(), sums = lse.to_doubles();
  for (std::int64_t q = 0; q < kLength; ++q) {
    EXPECT_NEAR(at(out, q * kDim), mean_of_window(q), 0.3) << q;
    EXPECT_NEAR(at(sums, q), std::log(static_cast<double>(std::min<std::int64_t>(q + 1, 32))), 1e-3)
        << q;
  }
}

TEST_P(Api, Varlen) {
  const Dims shape{57, kHeads, kDim};
  const Tensor Q = zeros_of(shape, DType::bf16), K = random_of(shape),
               V = positions({57, 1, 1}, shape), O = empty_of(shape, DType::bf16);
  const kernels::Attention attn = kernels::attention({.mask = kernels::masks::sliding_window(31)});
#include "api_2.inc"
  const auto out = O.to_doubles();
  for (const std::int64_t row : {0, 4, 5, 44, 45, 56}) {
    const std::int64_t start = row < 5 ? 0 : row < 45 ? 5 : 45;
    EXPECT_NEAR(at(out, row * kHeads * kDim),
                static_cast<double>(start) + mean_of_window(row - start), 0.3)
        << row;
  }
}

/// Equal experts: a token's weights add up to 1, so the layer is one expert.
TEST_P(Api, MixtureOfExperts) {
  constexpr std::int64_t kTokens = 6, kWidth = 32;
  const Tensor X = random_of({kTokens, kDim}), gate = random_of({8, kDim}),
               one_up = random_of({1, 2 * kWidth, kDim}, 0.1),
               one_down = random_of({1, kDim, kWidth}, 0.1),
               up = one_up.broadcast_to({8, 2 * kWidth, kDim}).contiguous(),
               down = one_down.broadcast_to({8, kDim, kWidth}).contiguous(),
               Y = empty_of({kTokens, kDim}, DType::bf16);
#include "api_3.inc"
  const auto x = X.to_doubles(), u = one_up.to_doubles(), d = one_down.to_doubles(),
             y = Y.to_doubles();
  const auto dot = [&](std::int64_t row, std::int64_t t) {
    double sum = 0;
    for (std::int64_t c = 0; c < kDim; ++c) sum += at(u, row * kDim + c) * at(x, t * kDim + c);
    return sum;
  };
  for (std::int64_t t = 0; t < kTokens; ++t) {
    double sum = 0;
    for (std::int64_t i = 0; i < kWidth; ++i) {
      const double g = dot(i, t);
      sum += g / (1 + std::exp(-g)) * dot(kWidth + i, t) * at(d, i);
    }
    EXPECT_NEAR(at(y, t * kDim), sum, 0.02 + 0.02 * std::abs(sum)) << t;
  }
}

TEST_P(Api, MatmulWithBiasAndGelu) {
  constexpr std::int64_t kM = 20, kN = 40, kK = 32;
  const Tensor A = ones_of({kM, kK}, DType::bf16),
               B = Tensor::full({kK, kN}, 1. / kK, DType::bf16, device()),
               C = empty_of({kM, kN}, DType::bf16), bias = iota_of({kN}, DType::bf16);
#include "api_4.inc"
  const auto out = C.to_doubles();
  for (std::int64_t n = 0; n < kN; ++n) {
    const double sum = 1 + static_cast<double>(n);
    EXPECT_NEAR(at(out, n), sum * (1 + std::erf(sum / std::sqrt(2.))) / 2, 0.01 * sum) << n;
  }
}

TEST_P(Api, RmsNorm) {
  const Tensor x = Tensor::from(std::vector<f32>{3, -3, 3, -3, 1, 1, 1, 1}, {2, 4}, device()),
               weight = iota_of({4}), y = empty_of({2, 4});
#include "api_5.inc"
  const auto out = y.to_doubles();
  const double wanted[] = {0, -1, 2, -3, 0, 1, 2, 3};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(out[i], wanted[i], 1e-5) << i;
}

TEST_P(Api, Sort) {
  const Tensor keys = Tensor::from(std::vector<f32>{2, 5, -1, 5}, device()), sorted = empty_of({4}),
               order = empty_of({4}, DType::i32);
#include "api_6.inc"
  EXPECT_EQ(sorted.to_doubles(), (std::vector<double>{5, 5, 2, -1}));
  EXPECT_EQ(order.to_doubles(), (std::vector<double>{1, 3, 0, 2}));
}

INSTANTIATE_TEST_SUITE_P(Devices, Api, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::api_test
