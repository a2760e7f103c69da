#pragma once
// Exact matmuls: operands are small integers, so that host arithmetic gives the very bits.
#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

#include "tegula/tegula.h"

namespace tegula::test {

/// A test of one device, and its operands.
class OnDevice : public testing::TestWithParam<Device> {
 protected:
  Tensor integers(const Dims& shape, DType dtype, std::uint64_t seed,
                  bool transposed = false) const {
    const std::int64_t low = dtype == DType::u8 ? 0 : -3;
    if (!transposed) return Tensor::integers(shape, dtype, low, 4, seed, GetParam());
    Dims stored = shape;
    std::swap(stored[stored.size() - 1], stored[stored.size() - 2]);
    return Tensor::integers(stored, dtype, low, 4, seed, GetParam()).transpose(-1, -2);
  }
  Tensor empty(const Dims& shape, DType dtype) const {
    return Tensor::empty(shape, dtype, GetParam());
  }
  Stream stream() const { return Stream(GetParam()); }
  /// The expected results of product_to_depth: sums of the first of k iterations, none among them.
  template <class Kernel>
  void expect_products_to_depths(const Kernel& kernel, std::int64_t k,
                                 std::initializer_list<int> depths) const;
};

/// A B of matrices, or of all entries of a batch.
inline std::vector<double> product(const Tensor& A, const Tensor& B) {
  const auto a = A.to_doubles(), b = B.to_doubles();
  const std::int64_t batch = A.rank() == 3 ? A.size(0) : 1, m = A.size(-2), k = A.size(-1),
                     n = B.size(-1);
  std::vector<double> c(static_cast<std::size_t>(batch * m * n));
  for (std::int64_t e = 0; e < batch; ++e)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t l = 0; l < k; ++l) {
        const double factor = a[static_cast<std::size_t>((e * m + i) * k + l)];
        const double* row = b.data() + (e * k + l) * n;
        double* sums = c.data() + (e * m + i) * n;
        for (std::int64_t j = 0; j < n; ++j) sums[j] += factor * row[j];
      }
  return c;
}

inline double rounded(double v, DType d) {
  return d == DType::bf16  ? static_cast<float>(bf16(static_cast<float>(v)))
         : d == DType::f16 ? static_cast<float>(f16(static_cast<float>(v)))
                           : v;
}

inline void expect_equal(const Tensor& got, const std::vector<double>& want) {
  const auto values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(values[i], rounded(want[i], got.dtype())) << "element " << i << " of " << got.str();
}

/// A B up to a depth known at launch, in tiles of 128 x bn.
inline auto product_to_depth(int bn, const PlanPatch& preferred) {
  return kernel("to",
                [=](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C, Scalar<i32> depth) {
                  for (auto [m, n] : grid(C, 128, bn, group_m(8))) {
                    auto acc = zeros<f32>(128, bn);
                    for (auto k : steps(Tile(0), Tile(depth), 64)) acc = dot(A(m, k), B(k, n), acc);
                    C(m, n) = acc;
                  }
                })
      .prefer(preferred);
}

template <class Kernel>
void OnDevice::expect_products_to_depths(const Kernel& kernel, std::int64_t k,
                                         std::initializer_list<int> depths) const {
  const std::int64_t m = 648, n = 520;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2);
  for (const int depth : depths) {
    SCOPED_TRACE(depth);
    const Tensor C = empty({m, n}, DType::f32);
    kernel(stream(), A, B, C, depth);
    expect_equal(C, depth == 0 ? std::vector<double>(static_cast<std::size_t>(m * n))
                               : product(A.slice(1, 0, depth), B.slice(0, 0, depth)));
  }
}

}  // namespace tegula::test
