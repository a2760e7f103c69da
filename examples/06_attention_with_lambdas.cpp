// Lesson 6: attention with your own mask and score function as lambdas. Captured Scalars and
// Tensors are read at every launch: windows and slopes can change without recompilation.
#include <tegula/kernels/attention.h>
#include <tegula/tegula.h>

#include <cmath>
#include <cstdio>

using namespace tegula;

namespace {

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kLength = 113, kDim = 64;

/// Computes the same in double precision; returns the largest difference to the kernel's result.
double largest_error(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O, int window,
                     const std::vector<f32>& slopes) {
  const std::vector<double> q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles(),
                            o = O.to_doubles();
  double worst = 0;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    const std::int64_t shared = h / (kHeads / kKvHeads) * kLength;  // query heads share key heads
    for (std::int64_t i = 0; i < kLength; ++i) {
      const std::int64_t first = std::max<std::int64_t>(0, i - window + 1);
      double sum = 0;
      std::vector<double> out(kDim, 0.0);
      for (std::int64_t j = first; j <= i; ++j) {
        double s = 0;
        for (std::int64_t d = 0; d < kDim; ++d)
          s += q[(h * kLength + i) * kDim + d] * k[(shared + j) * kDim + d];
        const double weight = std::exp(s / std::sqrt(static_cast<double>(kDim)) -
                                       slopes[h] * static_cast<double>(i - j));
        sum += weight;
        for (std::int64_t d = 0; d < kDim; ++d) out[d] += weight * v[(shared + j) * kDim + d];
      }
      for (std::int64_t d = 0; d < kDim; ++d)
        worst = std::max(worst, std::abs(out[d] / sum - o[(h * kLength + i) * kDim + d]));
    }
  }
  return worst;
}

}  // namespace

int main() {
  const Device device = Device::best();
  const std::vector<f32> slopes{0.5f, 0.25f, 0.125f, 0.0625f};
  const Tensor slope = Tensor::from(slopes, device);
  Scalar<i32> window = 20;

  const auto attn = kernels::attention({
      .mask = [window](auto, auto, auto q, auto kv) { return q >= kv && q - kv < window; },
      .score = [slope](auto s, auto, auto h, auto q,
                       auto kv) { return s - view<f32, 1>(slope)(h) * cast<f32>(q - kv); },
      .scale = {},
  });

  const Tensor Q = Tensor::normal({1, kHeads, kLength, kDim}, DType::bf16, 0, 1, 1, device);
  const Tensor K = Tensor::normal({1, kKvHeads, kLength, kDim}, DType::bf16, 0, 1, 2, device);
  const Tensor V = Tensor::normal({1, kKvHeads, kLength, kDim}, DType::bf16, 0, 1, 3, device);
  bool right = true;
  for (const int w : {20, 1, 100}) {
    window = w;
    const Tensor O = Tensor::empty(Q.shape(), DType::bf16, device);
    attn(Q, K, V, O);
    const double error = largest_error(Q, K, V, O, w, slopes);
    std::printf("window %3d on %s: largest error %.2g\n", w, device.str().c_str(), error);
    right = right && error < 0.03;  // values up to 4, weights and results rounded to bf16
  }
  return right ? 0 : 1;
}
