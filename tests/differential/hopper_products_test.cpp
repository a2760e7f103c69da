// Matmuls by wgmma on operands loaded by TMA: every operand order, tile and odd shape, exact on
// small integers, on every available device.
#include <gtest/gtest.h>

#include <cmath>

#include "tegula/kernels/matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::hopper_products_test {
using namespace kernels;
namespace {

class HopperMatmul : public testing::TestWithParam<Device> {
 protected:
  Tensor integers(const Dims& shape, int seed) const {
    return Tensor::integers(shape, DType::bf16, -4, 4, static_cast<std::uint64_t>(seed),
                            GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, HopperMatmul, testing::ValuesIn(test::devices()),
                         test::device_name);

struct Order {
  bool a_transposed, b_transposed;
};

auto product(int bm, int bn, int bk, Order order) {
  return kernel("product", [=](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    const Tile depth = A.dim(order.a_transposed ? 0 : 1);
    for (auto [m, n] : grid(C, bm, bn)) {
      auto acc = zeros<f32>(bm, bn);
      for (auto k : steps(depth, bk))
        acc = dot(order.a_transposed ? A(k, m).T() : A(m, k),
                  order.b_transposed ? B(n, k).T() : B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

template <class Kernel>
void expect_exact(const Kernel& kernel, const Tensor& A, const Tensor& B, std::int64_t m,
                  std::int64_t n, std::int64_t k, Order order) {
  const Tensor C = Tensor::empty({m, n}, DType::f32, A.device());
  kernel(A, B, C);
  const auto a = A.to_doubles(), b = B.to_doubles(), c = C.to_doubles();
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += a[static_cast<std::size_t>(order.a_transposed ? l * m + i : i * k + l)] *
               b[static_cast<std::size_t>(order.b_transposed ? j * k + l : l * n + j)];
      ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)], sum) << i << ", " << j;
    }
}

TEST_P(HopperMatmul, EveryOperandOrder) {
  for (const Order order : {Order{false, false}, {false, true}, {true, false}, {true, true}}) {
    SCOPED_TRACE(testing::Message() << order.a_transposed << order.b_transposed);
    const auto kernel = product(128, 128, 64, order);
    const std::int64_t m = 264, n = 136, k = 328;
    const Tensor A = order.a_transposed ? integers({k, m}, 1) : integers({m, k}, 1),
                 B = order.b_transposed ? integers({n, k}, 2) : integers({k, n}, 2);
    expect_exact(kernel, A, B, m, n, k, order);
    if (GetParam().kind != DeviceKind::cpu) {
      EXPECT_NE(kernel.explain().find("dot by wgmma"), std::string::npos) << kernel.explain();
    }
  }
}

TEST_P(HopperMatmul, TilesOfEveryWidth) {
  struct Tiles {
    int bm, bn, bk;
  };
  for (const Tiles t : {Tiles{64, 32, 32},
                        {64, 96, 64},
                        {128, 160, 64},
                        {128, 256, 64},
                        {64, 112, 16},
                        {128, 192, 128},
                        {256, 64, 64}}) {
    SCOPED_TRACE(testing::Message() << t.bm << "x" << t.bn << "x" << t.bk);
    for (const Order order : {Order{false, false}, {false, true}}) {
      const auto kernel = product(t.bm, t.bn, t.bk, order);
      const std::int64_t m = t.bm + 8, n = 2 * t.bn - 8, k = 3 * t.bk + 8;
      const Tensor B = order.b_transposed ? integers({n, k}, 4) : integers({k, n}, 4);
      expect_exact(kernel, integers({m, k}, 3), B, m, n, k, order);
      if (GetParam().kind != DeviceKind::cpu) {
        EXPECT_NE(kernel.explain().find("dot by wgmma"), std::string::npos) << kernel.explain();
      }
    }
  }
}

TEST_P(HopperMatmul, FewStepsAndNone) {
  const Order order{false, true};
  const auto kernel = product(64, 64, 64, order);
  for (std::int64_t k : {0, 8, 64, 72, 128, 192, 256, 320})
    expect_exact(kernel, integers({72, k}, 5), integers({40, k}, 6), 72, 40, k, order);
}

/// An MMA whose operand is another MMA's result, and an accumulator that something else reads.
TEST_P(HopperMatmul, BackToBackMmas) {
  const auto back_to_back =
      kernel("chained", [](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, Out<f32, 2> O) {
        for (auto [m, d] : grid(O, 64, 64)) {
          auto out = zeros<f32>(64, 64);
          const Tile q = Q(m, all);
          for (auto n : steps(K.rows(), 64)) {
            const Tile s = dot(q, K(n, all).T());
            out = dot(cast<bf16>(min(max(s, -8.0f), 8.0f)), V(n, d), out * 0.5f);
          }
          O(m, d) = out;
        }
      });
  const std::int64_t m = 72, n = 200, d = 64;
  const Tensor Q = integers({m, d}, 7), K = integers({n, d}, 8), V = integers({n, d}, 9),
               O = Tensor::empty({m, d}, DType::f32, GetParam());
  back_to_back(Q, K, V, O);
  const auto q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles(), o = O.to_doubles();
  for (std::int64_t i = 0; i < m; ++i) {
    std::vector<double> out(static_cast<std::size_t>(d));
    for (std::int64_t block = 0; block < n; block += 64) {
      for (double& x : out) x *= 0.5;
      for (std::int64_t j = block; j < std::min(n, block + 64); ++j) {
        double s = 0;
        for (std::int64_t l = 0; l < d; ++l)
          s += q[static_cast<std::size_t>(i * d + l)] * k[static_cast<std::size_t>(j * d + l)];
        s = std::clamp(s, -8.0, 8.0);
        for (std::int64_t l = 0; l < d; ++l)
          out[static_cast<std::size_t>(l)] += s * v[static_cast<std::size_t>(j * d + l)];
      }
    }
    for (std::int64_t l = 0; l < d; ++l)
      ASSERT_EQ(o[static_cast<std::size_t>(i * d + l)], out[static_cast<std::size_t>(l)])
          << i << ", " << l;
  }
}

/// Two accumulators over one A: both stay in flight, and A is loaded once. With an empty and a
/// short loop.
TEST_P(HopperMatmul, TwoAccumulatorsOverOneOperand) {
  const auto gated =
      kernel("gated", [](In<bf16, 2> A, In<bf16, 2> G, In<bf16, 2> U, Out<f32, 2> C) {
        for (auto [m, n] : grid(C, 128, 64)) {
          auto gate = zeros<f32>(128, 64), up = zeros<f32>(128, 64);
          for (auto k : steps(A.cols(), 64)) {
            const Tile a = A(m, k);
            gate = dot(a, G(k, n), gate);
            up = dot(a, U(k, n), up);
          }
          C(m, n) = max(gate, 0.0f) * up;
        }
      });
  const std::int64_t m = 136, n = 72;
  for (const std::int64_t k : {0, 8, 64, 200, 520}) {
    const Tensor A = integers({m, k}, 1), G = integers({k, n}, 2), U = integers({k, n}, 3),
                 C = Tensor::empty({m, n}, DType::f32, GetParam());
    gated(A, G, U, C);
    const auto a = A.to_doubles(), g = G.to_doubles(), u = U.to_doubles(), c = C.to_doubles();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double gate = 0, up = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          gate += a[static_cast<std::size_t>(i * k + l)] * g[static_cast<std::size_t>(l * n + j)];
          up += a[static_cast<std::size_t>(i * k + l)] * u[static_cast<std::size_t>(l * n + j)];
        }
        ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)], std::max(gate, 0.0) * up)
            << i << ", " << j << " of k " << k;
      }
  }
  if (GetParam().kind == DeviceKind::cpu) return;
  const std::string said = gated.explain();
  std::size_t brought = 0;
  for (std::size_t at = said.find("loaded by TMA"); at != std::string::npos;
       at = said.find("loaded by TMA", at + 1))
    ++brought;
  EXPECT_EQ(brought, 3U) << said;
  EXPECT_EQ(said.find("overlapped=0"), std::string::npos) << said;
}

/// A mainloop inside the user's own loop: the ring continues from iteration to iteration.
TEST_P(HopperMatmul, LoopsInLoops) {
  const auto sums = kernel("sums", [](In<bf16, 3> A, In<bf16, 3> B, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 64, 64)) {
      auto total = zeros<f32>(64, 64);
      for (auto e : steps(A.dim(0), 1)) {
        auto acc = zeros<f32>(64, 64);
        for (auto k : steps(A.dim(2), 64)) acc = dot(A(e, m, k), B(e, k, n), acc);
        total = total * 0.5f + acc;
      }
      C(m, n) = total;
    }
  });
  const std::int64_t experts = 5, m = 72, n = 136, k = 328;
  const Tensor A = integers({experts, m, k}, 10), B = integers({experts, k, n}, 11),
               C = Tensor::empty({m, n}, DType::f32, GetParam());
  sums(A, B, C);
  const auto a = A.to_doubles(), b = B.to_doubles(), c = C.to_doubles();
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double total = 0;
      for (std::int64_t e = 0; e < experts; ++e) {
        total *= 0.5;
        for (std::int64_t l = 0; l < k; ++l)
          total += a[static_cast<std::size_t>((e * m + i) * k + l)] *
                   b[static_cast<std::size_t>((e * k + l) * n + j)];
      }
      ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)], total) << i << ", " << j;
    }
  if (GetParam().kind != DeviceKind::cpu) {
    EXPECT_NE(sums.explain().find("dot by wgmma"), std::string::npos) << sums.explain();
  }
}

/// The library's matmul: split-K, and whatever is chosen for a shape.
TEST_P(HopperMatmul, ConfigurationsOfTheLibrary) {
  const std::int64_t m = 72, n = 136, k = 1096;
  const Tensor A = integers({m, k}, 1), B = integers({k, n}, 2);
  const auto expect = [&](const auto& multiply) {
    const Tensor C = Tensor::empty({m, n}, DType::bf16, GetParam());
    multiply(C);
    const auto a = A.to_doubles(), b = B.to_doubles(), c = C.to_doubles();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
          sum += a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
        ASSERT_EQ(c[static_cast<std::size_t>(i * n + j)],
                  static_cast<float>(bf16(static_cast<float>(sum))))
            << i << ", " << j;
      }
  };
  const Stream stream(GetParam());
  for (const MatmulConfig config :
       {MatmulConfig{.bm = 64, .bn = 64, .bk = 64, .split = SplitK::partials, .parts = 3},
        {.bm = 128, .bn = 160, .bk = 64, .split = SplitK::partials, .parts = 2},
        {.bm = 64, .bn = 32, .bk = 128},
        {.bm = 64, .bn = 96, .bk = 32, .split = SplitK::partials, .parts = 16},
        {.bm = 256, .bn = 64, .bk = 64}}) {
    SCOPED_TRACE(config.str());
    expect([&](const Tensor& C) { matmul(stream, A, B, C, config); });
  }
  expect([&](const Tensor& C) { matmul(stream, A, B, C); });
}

/// Rows that TMA cannot address take another path and are right too.
TEST_P(HopperMatmul, OddStrides) {
  const Order order{false, false};
  const auto kernel = product(64, 64, 32, order);
  expect_exact(kernel, integers({65, 77}, 1), integers({77, 33}, 2), 65, 33, 77, order);
}

}  // namespace
}  // namespace tegula::hopper_products_test
