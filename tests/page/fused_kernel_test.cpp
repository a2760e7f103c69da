// Compiles and runs the kernels of docs/language/fused-kernel.md unchanged.
#include "runtime/doctor.h"
#include "tegula/kernels/fused_matmul.h"
#include "tests/page/page.h"

namespace tegula::page::fused_kernel_test {
namespace {

using Matrix = std::vector<double>;

double gelu_of(double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }

/// a [m, k] times b [k, n].
Matrix product(const Matrix& a, const Matrix& b, std::size_t m, std::size_t k, std::size_t n) {
  Matrix c(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t l = 0; l < k; ++l)
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

/// Equal except for the rounding to bf16 and the order of sums.
void expect_close(const Matrix& found, const Matrix& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(found[i], wanted[i], 0.01 * (1 + std::abs(wanted[i]))) << "element " << i;
}

class FusedKernel : public Page {};

TEST_P(FusedKernel, EpiloguesOfOneProduct) {
#include "fused_kernel_1.inc"
#include "fused_kernel_2.inc"
#include "fused_kernel_3.inc"
  const std::int64_t m = 70, k = 96, n = 136;
  const Tensor a = Tensor::normal({m, k}, DType::bf16, 0, 1, 1, device()),
               b = Tensor::normal({k, n}, DType::bf16, 0, 0.2, 2, device()),
               bias = Tensor::normal({n}, DType::bf16, 0, 1, 3, device()),
               residual = Tensor::normal({m, n}, DType::bf16, 0, 1, 4, device()),
               c = empty_of({m, n}, DType::bf16);
  Matrix wanted = product(a.to_doubles(), b.to_doubles(), m, k, n);
  kernels::matmul(a, b, c);
  expect_close(c.to_doubles(), wanted);
  const Matrix of_column = bias.to_doubles(), added = residual.to_doubles();
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = gelu_of(wanted[i] + of_column[i % of_column.size()]);
  dense(a, b, bias, c);
  expect_close(c.to_doubles(), wanted);
  block(a, b, bias, Tensor(), c);
  expect_close(c.to_doubles(), wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += added[i];
  block(a, b, bias, residual, c);
  expect_close(c.to_doubles(), wanted);
}

TEST_P(FusedKernel, TwoKernelsOfABlock) {
#include "fused_kernel_4.inc"
#include "fused_kernel_5.inc"
  const Device device = GetParam();
#include "fused_kernel_6.inc"
  Matrix h = product(X.to_doubles(), W1.to_doubles(), rows, inner, hidden);
  const Matrix of_column = bias.to_doubles(), added = R.to_doubles();
  for (std::size_t i = 0; i < h.size(); ++i)
    h[i] = gelu_of(h[i] + of_column[i % hidden]) + added[i];
  const Matrix stored = H.to_doubles();
  expect_close(stored, h);

  Matrix normed = stored;
  for (auto row = normed.begin(); row != normed.end(); row += hidden) {
    double total = 0;
    for (int i = 0; i < hidden; ++i) total += row[i] * row[i];
    for (int i = 0; i < hidden; ++i) row[i] /= std::sqrt(total / hidden + 1e-6);
  }
  expect_close(Y.to_doubles(), product(normed, W2.to_doubles(), rows, hidden, columns));
#include "fused_kernel_8.inc"
  expect_close(H.to_doubles(), h);
}

INSTANTIATE_TEST_SUITE_P(Devices, FusedKernel, cpu_and_sim(), name_of);

/// With bias, activation, residual and statistics, the product still uses wgmma and TMA.
TEST(FusedKernelPlan, KeepsTheMainloop) {
  if (!runtime::diagnose().finding("LLVM").present) GTEST_SKIP() << "no LLVM back end";
#include "fused_kernel_4.inc"
#include "fused_kernel_7.inc"
  EXPECT_NE(schedule.find("wgmma=1"), std::string::npos) << schedule;
  // The page states that the epilogue spills; the kernel has only this warning.
  for (const Warning& w : fused.warnings())
    EXPECT_NE(w.str().find("T1501"), std::string::npos) << w.str();
}

}  // namespace
}  // namespace tegula::page::fused_kernel_test
