// Lesson 3: a C++ loop over steps(...) is recorded once, and the accumulator that it assigns
// becomes a loop-carried value. tune(...) names the numbers that a tuner may choose.
#include <tegula/tegula.h>

#include <cstdio>

using namespace tegula;

namespace {

bool agrees(const Tensor& A, const Tensor& B, const Tensor& C) {
  const std::vector<double> a = A.to_doubles(), b = B.to_doubles(), c = C.to_doubles();
  const std::int64_t m = A.size(0), k = A.size(1), n = B.size(1);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      if (c[i * n + j] == sum) continue;
      std::printf("C[%d, %d] is %g, not %g\n", static_cast<int>(i), static_cast<int>(j),
                  c[i * n + j], sum);
      return false;
    }
  return true;
}

}  // namespace

int main() {
  const auto matmul = kernel("matmul", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    const int BM = tune("BM", {32, 64, 128}), BN = tune("BN", {32, 48, 64}),
              BK = tune("BK", {32, 64});
    for (auto [m, n] : grid(C, BM, BN, group_m(8))) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });

  const Device device = Device::best();
  const std::int64_t m = 70, n = 50, k = 90;
  // Small integers: all products and sums are exact, so the results must be equal.
  const Tensor A = Tensor::integers({m, k}, DType::bf16, -4, 4, 1, device),
               B = Tensor::integers({k, n}, DType::bf16, -4, 4, 2, device);
  for (const int bn : {32, 48, 64}) {
    const Tensor C = Tensor::empty({m, n}, DType::f32, device);
    matmul.with({{"BN", bn}})(A, B, C);
    if (!agrees(A, B, C)) return 1;
    std::printf("BN = %d on %s: exact\n", bn, device.str().c_str());
  }
}
