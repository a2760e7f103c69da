#pragma once
// Log-space matmul against sums in double.
#include <limits>

#include "tegula/kernels/log_matmul.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

struct LogMatmulCase {
  std::int64_t m, n, k;
  double deviation;  ///< of the elements: large ones underflow
};

/// log(sum of e^x), from the largest term.
inline double log_sum(const Doubles& terms) {
  double top = -std::numeric_limits<double>::infinity(), total = 0;
  for (const double t : terms) top = std::isnan(t) ? t : std::max(top, t);
  if (std::isinf(top) || terms.empty()) {
    for (const double t : terms)
      if (std::isnan(t)) return t;
    return top;
  }
  for (const double t : terms) total += std::exp(t - top);
  return top + std::log(total);
}

inline Doubles log_product(const Doubles& a, const Doubles& b, const LogMatmulCase& c) {
  Doubles want(c.m * c.n), terms(c.k);
  for (std::int64_t i = 0; i < c.m; ++i)
    for (std::int64_t j = 0; j < c.n; ++j) {
      for (std::int64_t k = 0; k < c.k; ++k) terms[k] = a[i * c.k + k] + b[k * c.n + j];
      want[i * c.n + j] = log_sum(terms);
    }
  return want;
}

inline void expect_within_a_thousandth(const Tensor& got, const Doubles& want) {
  const Doubles all = got.to_doubles();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(want[i]))
      ASSERT_TRUE(std::isnan(all[i])) << "element " << i << " is " << all[i];
    else if (std::isinf(want[i]))
      ASSERT_EQ(all[i], want[i]) << "element " << i;
    else
      ASSERT_LE(std::abs(all[i] - want[i]), 1e-3)
          << "element " << i << " is " << all[i] << ", not " << want[i];
  }
}

inline void check_log_matmul_of(const Doubles& a, const Doubles& b, const LogMatmulCase& c,
                                Device device) {
  const Tensor A = Tensor::from(a, {c.m, c.k}, Device::cpu()).cast(DType::f32).to(device),
               B = Tensor::from(b, {c.k, c.n}, Device::cpu()).cast(DType::f32).to(device),
               C = unwritten_rows({c.m, c.n}, DType::f32, device), again = C.clone();
  const Stream stream(device);
  log_matmul(stream, A, B, C);
  expect_within_a_thousandth(C, log_product(A.to_doubles(), B.to_doubles(), c));
  log_matmul(stream, A, B, again);
  const Doubles first = C.to_doubles(), second = again.to_doubles();
  for (std::size_t i = 0; i < first.size(); ++i)
    ASSERT_TRUE(first[i] == second[i] || std::isnan(first[i])) << "element " << i;
}

inline Doubles normals(std::int64_t n, double deviation, std::uint64_t seed) {
  return Tensor::normal({n}, DType::f32, -2, deviation, seed, Device::cpu()).to_doubles();
}

inline void check_log_matmuls(Device device) {
  for (const LogMatmulCase& c :
       {LogMatmulCase{64, 64, 64, 1}, LogMatmulCase{65, 70, 33, 1}, LogMatmulCase{1, 1, 1, 3},
        LogMatmulCase{20, 5, 0, 1}, LogMatmulCase{0, 5, 8, 1}, LogMatmulCase{40, 130, 100, 12}}) {
    SCOPED_TRACE(testing::Message() << c.m << " x " << c.n << " x " << c.k);
    check_log_matmul_of(normals(c.m * c.k, c.deviation, 1), normals(c.k * c.n, c.deviation, 2), c,
                        device);
  }
}

/// Rows and columns whose maxima are at different k, of zero probability, and with inf and NaN.
inline void check_log_matmul_extremes(Device device) {
  const LogMatmulCase c{40, 70, 30, 1};
  Doubles a = normals(c.m * c.k, 1, 3), b = normals(c.k * c.n, 1, 4);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (std::int64_t k = 0; k < c.k; ++k) {
    a[3 * c.k + k] = -kInf, b[k * c.n + 5] = -kInf;
    a[4 * c.k + k] = k % 2 == 0 ? 0 : -80, b[k * c.n + 6] = k % 2 == 0 ? -90 : 0;
    b[k * c.n + 7] = k % 2 == 0 ? -kInf : 0;
  }
  a[17 * c.k + 1] = kInf, a[18 * c.k + 2] = std::nan(""), b[2 * c.n + 66] = kInf;
  check_log_matmul_of(a, b, c, device);
}

}  // namespace tegula::test
