// Three basic kernels and an attention, traced, against their pinned tile form.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ir/verify.h"
#include "run_on_host.h"
#include "tests/comparable.h"
#include "tests/first_kernels.h"

namespace tegula::golden_test {
namespace {

using test::empty;

void expect_golden(const std::string& name, const Trace& trace) {
  const std::string path =
      std::string(TEGULA_SOURCE_DIR) + "/tests/unit/dsl/golden/" + name + ".tir";
  const std::string text = trace.text();
  if (const char* bless = std::getenv("TEGULA_BLESS"); bless && *bless) std::ofstream(path) << text;
  std::ifstream in(path);
  ASSERT_TRUE(in) << path << " is missing; TEGULA_BLESS=1 writes it";
  std::stringstream expected;
  expected << in.rdbuf();
  EXPECT_EQ(test::comparable(text), test::comparable(expected.str()))
      << "TEGULA_BLESS=1 rewrites " << path;
  EXPECT_TRUE(ir::verify(ir::parse(text)).empty());
}

auto matmul() {
  return kernel("matmul", [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    int BM = tune("BM", {16, 64, 128, 256}, 64), BN = tune("BN", {16, 64, 96, 128, 192, 256}, 96),
        BK = tune("BK", {16, 32, 64, 128}, 32);
    for (auto [m, n] : grid(C, BM, BN, group_m(8))) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

TEST(Golden, VectorAdd) {
  const Tensor x = empty({5000});
  expect_golden("vector_add", test::vector_add().trace(x, x, x));
}

TEST(Golden, RowSoftmax) {
  const Tensor x = empty({512, 384}, DType::bf16);
  expect_golden("row_softmax", test::row_softmax().trace(x, x));
}

TEST(Golden, Matmul) {
  const Tensor a = empty({512, 256}, DType::bf16), b = empty({256, 384}, DType::bf16),
               c = empty({512, 384}, DType::bf16);
  expect_golden("matmul", matmul().trace(a, b, c));
}

TEST(Golden, SlidingWindowAttention) {
  const Tensor q = empty({2, 8, 300, 80}, DType::bf16), k = empty({2, 2, 300, 80}, DType::bf16);
  const auto k1 =
      test::attention([](auto, auto, auto q, auto kv) { return q >= kv && q - kv < 1024; },
                      [](auto s, auto, auto, auto, auto) { return s; });
  expect_golden("attention", k1.trace(q, k, k, q, 0.125f));
}

// ---- the same kernels, run ----------------------------------------------------------------------
TEST(Meaning, VectorAddWithARaggedEdge) {
  const Tensor x = Tensor::iota({1500}, DType::f32, test::kHost), z = empty({1500});
  test::run(test::vector_add(), x, x, z);
  const auto got = z.to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 2.0f * static_cast<float>(i));
}

TEST(Meaning, SoftmaxRowsOfAnyLength) {
  const Tensor x = Tensor::integers({3, 5}, DType::bf16, -3, 3, 1, test::kHost),
               y = empty({3, 5}, DType::bf16);
  test::run(test::row_softmax(), x, y);
  const auto in = x.to_doubles(), out = y.to_doubles();
  for (int r = 0; r < 3; ++r) {
    double sum = 0;
    for (int c = 0; c < 5; ++c) sum += std::exp(in[r * 5 + c]);
    for (int c = 0; c < 5; ++c) EXPECT_NEAR(out[r * 5 + c], std::exp(in[r * 5 + c]) / sum, 4e-3);
  }
}

TEST(Meaning, MatmulWithRaggedTiles) {
  const int M = 37, N = 21, K = 50;
  const Tensor a = Tensor::integers({M, K}, DType::bf16, -4, 4, 1, test::kHost);
  const Tensor b = Tensor::integers({K, N}, DType::bf16, -4, 4, 2, test::kHost);
  const Tensor c = empty({M, N}, DType::bf16);
  test::run(matmul().with({{"BM", 16}, {"BN", 16}, {"BK", 16}}), a, b, c);
  const auto x = a.to_doubles(), y = b.to_doubles(), z = c.to_doubles();
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      double sum = 0;
      for (int k = 0; k < K; ++k) sum += x[i * K + k] * y[k * N + j];
      ASSERT_EQ(z[i * N + j], static_cast<double>(static_cast<float>(bf16(sum)))) << i << ", " << j;
    }
}

TEST(Meaning, AttentionWithMaskScoreAndCapturedTables) {
  const int B = 2, H = 4, G = 2, S = 37, D = 20;
  const Tensor q = Tensor::normal({B, H, S, D}, DType::bf16, 0, 1, 1, test::kHost);
  const Tensor k = Tensor::normal({B, H / G, S, D}, DType::bf16, 0, 1, 2, test::kHost);
  const Tensor v = Tensor::normal({B, H / G, S, D}, DType::bf16, 0, 1, 3, test::kHost);
  const Tensor o = empty({B, H, S, D}, DType::bf16);
  const Tensor slopes = Tensor::uniform({H}, DType::f32, 0.0, 0.5, 4, test::kHost);
  const Tensor docs = Tensor::integers({B, S}, DType::i32, 0, 1, 5, test::kHost);
  Scalar<i32> window = 9;
  const auto attn = test::attention(
      [=](auto b, auto, auto q, auto kv) {
        const auto doc = view<i32, 2>(docs);
        return q >= kv && q - kv < window && doc(b, q) == doc(b, kv);
      },
      [=](auto s, auto, auto h, auto q, auto kv) {
        return s + view<f32, 1>(slopes)(h) * (kv - q);
      });
  const auto small = attn.with({{"BM", 16}, {"BN", 16}});
  const auto Q = q.to_doubles(), K = k.to_doubles(), V = v.to_doubles(),
             slope = slopes.to_doubles(), doc = docs.to_doubles();
  for (int w : {9, 4}) {
    window.set(w);  // read at the launch: nothing is traced for it
    test::run(small, q, k, v, o, 0.25f);
    const auto got = o.to_doubles();
    for (int b = 0; b < B; ++b)
      for (int h = 0; h < H; ++h)
        for (int i = 0; i < S; ++i) {
          std::vector<double> p(S, 0.0);
          double sum = 0;
          for (int j = 0; j < S; ++j) {
            if (j > i || i - j >= w || doc[b * S + i] != doc[b * S + j]) continue;
            double s = 0;
            for (int d = 0; d < D; ++d)
              s += Q[((b * H + h) * S + i) * D + d] * K[((b * (H / G) + h / G) * S + j) * D + d];
            p[j] = std::exp(s * 0.25 + slope[h] * (j - i));
            sum += p[j];
          }
          for (int d = 0; d < D; ++d) {
            double out = 0;
            for (int j = 0; j < S; ++j)
              out += p[j] / sum * V[((b * (H / G) + h / G) * S + j) * D + d];
            ASSERT_NEAR(got[((b * H + h) * S + i) * D + d], out, 0.03)
                << b << h << i << d << " window " << w;
          }
        }
  }
}

}  // namespace
}  // namespace tegula::golden_test
