// The first kernels of the language, on every available device, against host arithmetic.
#include <gtest/gtest.h>

#include <cmath>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/first_kernels.h"

namespace tegula::first_kernels_test {
namespace {

class EveryDevice : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, EveryDevice, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(EveryDevice, VectorAdd) {
  const auto add = test::vector_add();
  for (std::int64_t n : {1, 1000, 4096, 5001}) {
    const Tensor x = Tensor::normal({n}, DType::f32, 0, 1, 1, GetParam()),
                 y = Tensor::normal({n}, DType::f32, 0, 1, 2, GetParam());
    const Tensor z = Tensor::empty({n}, DType::f32, GetParam());
    add(x, y, z);
    const auto a = x.to_vector<f32>(), b = y.to_vector<f32>(), c = z.to_vector<f32>();
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i << " of " << n;
  }
}

TEST_P(EveryDevice, RowSoftmax) {
  const auto softmax = test::row_softmax();
  for (std::int64_t n : {1, 7, 128, 1000, 3000}) {
    const Tensor x = Tensor::normal({5, n}, DType::bf16, 0, 2, 3, GetParam()),
                 y = Tensor::empty({5, n}, DType::bf16, GetParam());
    softmax(x, y);
    const auto a = x.to_doubles(), c = y.to_doubles();
    for (int r = 0; r < 5; ++r) {
      double m = -INFINITY, s = 0;
      for (int i = 0; i < n; ++i) m = std::max(m, a[r * n + i]);
      for (int i = 0; i < n; ++i) s += std::exp(a[r * n + i] - m);
      for (int i = 0; i < n; ++i)
        ASSERT_NEAR(c[r * n + i], std::exp(a[r * n + i] - m) / s, 0.005)
            << n << " row " << r << " col " << i;
    }
  }
}

/// Sum of products in double, as a row-major vector.
std::vector<double> product(const Tensor& a, const Tensor& b) {
  const auto x = a.to_doubles(), y = b.to_doubles();
  const std::int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  std::vector<double> c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += x[i * k + p] * y[p * n + j];
  return c;
}

template <class T>
auto matmul() {
  return kernel("matmul", [](In<T, 2> A, In<T, 2> B, Out<T, 2> C) {
    int BM = tune("BM", {16, 32, 64, 128}, 64), BN = tune("BN", {16, 32, 64, 96, 128, 256}, 64),
        BK = tune("BK", {16, 32, 64}, 32);
    for (auto [m, n] : grid(C, BM, BN, group_m(8))) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

struct Shape {
  std::int64_t m, n, k;
};

/// A single element after its view's end, and the value used for it.
TEST_P(EveryDevice, AbsentScalar) {
  const auto halves = kernel("halves", [](In<i32, 2> x, Out<i32, 1> z) {
    for (auto i : grid(z, 4)) {
      const Tile all = full<i32>(0, 4) + fill_absent(x(i.first() / 2, i.first() / 4), 14) / 2;
      z(i) = all;
    }
  });
  const Tensor x = Tensor::full({3, 2}, 6, DType::i32, GetParam()),
               z = Tensor::zeros({12}, DType::i32, GetParam());
  halves(x, z);  // at (0, 0), (2, 1), (4, 2)
  EXPECT_EQ(z.to_vector<i32>(), (std::vector<i32>{3, 3, 3, 3, 3, 3, 3, 3, 7, 7, 7, 7}));
}

TEST_P(EveryDevice, MatmulBf16) {
  for (const Shape s :
       {Shape{64, 64, 64}, {128, 64, 96}, {100, 72, 80}, {37, 21, 50}, {1, 1, 1}, {65, 130, 33}}) {
    SCOPED_TRACE(std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k));
    const Tensor a = Tensor::integers({s.m, s.k}, DType::bf16, -4, 4, 1, GetParam()),
                 b = Tensor::integers({s.k, s.n}, DType::bf16, -4, 4, 2, GetParam());
    const Tensor c = Tensor::empty({s.m, s.n}, DType::bf16, GetParam());
    matmul<bf16>()(a, b, c);
    const auto want = product(a, b), got = c.to_doubles();
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(got[i], static_cast<double>(static_cast<float>(bf16(want[i])))) << i;
  }
}

TEST_P(EveryDevice, MatmulF32ByFma) {
  for (const Shape s : {Shape{64, 64, 64}, {37, 21, 50}}) {
    const Tensor a = Tensor::integers({s.m, s.k}, DType::f32, -4, 4, 1, GetParam()),
                 b = Tensor::integers({s.k, s.n}, DType::f32, -4, 4, 2, GetParam());
    const Tensor c = Tensor::empty({s.m, s.n}, DType::f32, GetParam());
    matmul<f32>()(a, b, c);
    EXPECT_EQ(c.to_doubles(), product(a, b));
  }
}

TEST_P(EveryDevice, CausalWindowAttention) {
  const auto attn =
      test::attention([](auto, auto, auto q, auto kv) { return q >= kv && q - kv < 50; },
                      [](auto s, auto, auto, auto, auto) { return s; });
  for (const std::int64_t S : {1, 64, 113, 200}) {
    SCOPED_TRACE(S);
    const std::int64_t B = 1, H = 4, HK = 2, D = 64;
    const Tensor q = Tensor::normal({B, H, S, D}, DType::bf16, 0, 1, 1, GetParam()),
                 k = Tensor::normal({B, HK, S, D}, DType::bf16, 0, 1, 2, GetParam());
    const Tensor v = Tensor::normal({B, HK, S, D}, DType::bf16, 0, 1, 3, GetParam()),
                 o = Tensor::empty({B, H, S, D}, DType::bf16, GetParam());
    attn(q, k, v, o, 0.125f);
    const auto qd = q.to_doubles(), kd = k.to_doubles(), vd = v.to_doubles(), od = o.to_doubles();
    double worst = 0;
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < S; ++i) {
        std::vector<double> p(S, 0.0);
        double top = -1e300, sum = 0;
        for (int j = std::max(0, i - 49); j <= i; ++j) {
          for (int d = 0; d < D; ++d)
            p[j] += qd[(h * S + i) * D + d] * kd[((h / 2) * S + j) * D + d];
          p[j] *= 0.125;
          top = std::max(top, p[j]);
        }
        for (int j = std::max(0, i - 49); j <= i; ++j) sum += p[j] = std::exp(p[j] - top);
        for (int d = 0; d < D; ++d) {
          double want = 0;
          for (int j = std::max(0, i - 49); j <= i; ++j)
            want += p[j] / sum * vd[((h / 2) * S + j) * D + d];
          worst = std::max(worst, std::abs(want - od[(h * S + i) * D + d]));
        }
      }
    EXPECT_LT(worst, 0.03);
  }
}

}  // namespace
}  // namespace tegula::first_kernels_test
