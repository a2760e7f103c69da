// Lesson 8: fusing the ops after a GEMM into it. The epilogue is a lambda on the accumulator tile;
// its further inputs are parameters of the lambda and arguments of the call.
#include <cmath>
#include <cstdio>

#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"

using namespace tegula;

namespace {

double gelu_of(double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }

}  // namespace

int main() {
  const Device device = Device::best();
  const std::int64_t m = 100, n = 72, k = 200;
  const Tensor A = Tensor::normal({m, k}, DType::bf16, 0, 1, 1, device),
               B = Tensor::normal({k, n}, DType::bf16, 0, 0.1, 2, device),
               bias = Tensor::normal({n}, DType::bf16, 0, 1, 3, device),
               residual = Tensor::normal({m, n}, DType::bf16, 0, 1, 4, device),
               C = Tensor::empty({m, n}, DType::f32, device);

  const auto dense = kernels::fused_matmul<bf16, f32>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return gelu(acc + expand(cast<f32>(bias(n)), 0)) + cast<f32>(residual(m, n));
      });
  dense(Stream(device), A, B, C, bias, residual);

  const auto a = A.to_doubles(), b = B.to_doubles(), c = C.to_doubles(), v = bias.to_doubles(),
             r = residual.to_doubles();
  double worst = 0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = v[static_cast<std::size_t>(j)];
      for (std::int64_t l = 0; l < k; ++l)
        sum += a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
      const auto at = static_cast<std::size_t>(i * n + j);
      worst = std::max(worst, std::abs(c[at] - (gelu_of(sum) + r[at])));
    }
  std::printf("gelu(A B + bias) + residual on %s: largest error %.1e\n", device.str().c_str(),
              worst);
  return worst < 1e-4 ? 0 : 1;
}
