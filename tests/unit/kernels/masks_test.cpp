// Masks of the library through attention itself, on the host.
#include "tegula/kernels/masks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tegula/kernels/attention.h"

namespace tegula::masks_test {
using namespace kernels;
namespace {

using namespace masks;

constexpr int kQueries = 37, kKeys = 50, kDim = 16;

/// Softmax over the keys that `seen` lets through, in double.
std::vector<double> expected(const Tensor& Q, const Tensor& K, const Tensor& V,
                             const std::function<bool(int, int)>& seen) {
  const auto q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles();
  std::vector<double> out(kQueries * kDim);
  for (int i = 0; i < kQueries; ++i) {
    std::vector<double> weights(kKeys);
    double sum = 0;
    for (int j = 0; j < kKeys; ++j) {
      if (!seen(i, j)) continue;
      double s = 0;
      for (int d = 0; d < kDim; ++d) s += q[i * kDim + d] * k[j * kDim + d];
      sum += weights[j] = std::exp(s / std::sqrt(double{kDim}));
    }
    for (int d = 0; d < kDim; ++d)
      for (int j = 0; j < kKeys && sum > 0; ++j)
        out[i * kDim + d] += weights[j] / sum * v[j * kDim + d];
  }
  return out;
}

void check(const Mask& mask, const std::function<bool(int, int)>& seen) {
  const Device cpu = Device::cpu();
  const Tensor Q = Tensor::normal({1, 1, kQueries, kDim}, DType::bf16, 0, 1, 1, cpu),
               K = Tensor::normal({1, 1, kKeys, kDim}, DType::bf16, 0, 1, 2, cpu),
               V = Tensor::normal({1, 1, kKeys, kDim}, DType::bf16, 0, 1, 3, cpu),
               O = Tensor::empty({1, 1, kQueries, kDim}, DType::bf16, cpu);
  attention({.mask = mask})(Q, K, V, O);
  const auto got = O.to_doubles(), want = expected(Q, K, V, seen);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 0.03) << i;
}

TEST(Masks, Window) {
  check(window(9, 4), [](int q, int kv) { return q - kv <= 9 && kv - q <= 4; });
}
TEST(Masks, ChunkedWithASizeOfTheLaunch) {
  check(chunked(Scalar<i32>(12)), [](int q, int kv) { return q >= kv && q / 12 == kv / 12; });
}
TEST(Masks, Batchify) {
  check(batchify(16, prefix_lm(5)),
        [](int q, int kv) { return q / 16 == kv / 16 && (kv % 16 < 5 || q % 16 >= kv % 16); });
}
TEST(Masks, ComposedOfThree) {
  check(or_(and_(causal(), dilated_window(20, 3)), not_(block_causal(8))), [](int q, int kv) {
    return (q >= kv && q - kv <= 20 && (q - kv) % 3 == 0) || q / 8 < kv / 8;
  });
}
TEST(Masks, Document) {
  std::vector<i32> ids;
  for (int i = 0; i < kKeys; ++i) ids.push_back(i / 9);
  const Tensor table = Tensor::from(ids, Device::cpu());
  check(document(table), [](int q, int kv) { return q / 9 == kv / 9; });
  check(packed_causal(table, Tensor::from(std::vector<i32>{0, 9, 18, 27, 36, 45}, Device::cpu())),
        [](int q, int kv) { return q >= kv && kv >= q / 9 * 9; });
}
TEST(Masks, KeyPadding) {
  check(key_padding(Tensor::from(std::vector<i32>{31}, Device::cpu())),
        [](int, int kv) { return kv < 31; });
}

}  // namespace
}  // namespace tegula::masks_test
