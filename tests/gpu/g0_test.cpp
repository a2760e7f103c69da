// The two hand-written SIMT texts on the GPU, by both back ends: correct, without spills or
// serialised wgmma, and with equal bits.
#include <gtest/gtest.h>

#include <cmath>

#include "tegula/stream.h"
#include "tests/gpu/by_back_end.h"
#include "tests/gpu/simt_launch.h"

namespace tegula::test::g0_test {
namespace {

class G0 : public OnHopper {};
INSTANTIATE_TEST_SUITE_P(BackEnds, G0, ::testing::Bool(),
                         [](const auto& i) { return std::string(i.param ? "nvrtc" : "llvm"); });

TEST_P(G0, GemmIsRight) {
  const ir::Kernel k = read_kernel("gemm.tir");
  const Built b = build(k, GetParam());
  EXPECT_TRUE(b.report.is_clean()) << b.report.defects();
  for (const auto [M, N, K] : {std::array{256, 512, 128}, {1024, 768, 512}, {1000, 2056, 1096}}) {
    const Tensor a = Tensor::integers({M, K}, DType::bf16, -4, 4, 1, Device::cuda()),
                 w = Tensor::integers({N, K}, DType::bf16, -4, 4, 2, Device::cuda());
    const Tensor d = Tensor::full({M, N}, NAN, DType::bf16, Device::cuda());
    const int mt = (M + 127) / 128, nt = (N + 255) / 256;
    Args()
        .map(a, {64, 128})
        .map(w, {64, 256})
        .map(d, {64, 64})
        .add((K + 63) / 64)
        .add(mt)
        .add(nt)
        .add(8)
        .launch(b, k, {132, 1, 1});
    Stream(Device::cuda()).synchronize();
    const auto x = a.to_vector<bf16>(), y = w.to_vector<bf16>(), z = d.to_vector<bf16>();
    std::vector<float> xf(x.begin(), x.end()), yf(y.begin(), y.end());
    std::int64_t wrong = 0;
    for (int i = 0; i < M; i += 3)
      for (int j = 0; j < N; ++j) {
        float sum = 0;
        for (int p = 0; p < K; ++p)
          sum += xf[static_cast<std::size_t>(i) * K + p] * yf[static_cast<std::size_t>(j) * K + p];
        wrong += !(z[static_cast<std::size_t>(i) * N + j] == bf16(sum));
      }
    EXPECT_EQ(wrong, 0) << M << "x" << N << "x" << K;
  }
}

TEST_P(G0, AttentionIsRight) {
  const ir::Kernel k = read_kernel("attention.tir");
  const Built b = build(k, GetParam());
  EXPECT_TRUE(b.report.is_clean()) << b.report.defects();
  const int BH = 3, S = 384, D = 128;
  const Tensor q = Tensor::normal({BH, S, D}, DType::bf16, 0, 1, 1, Device::cuda()),
               kk = Tensor::normal({BH, S, D}, DType::bf16, 0, 1, 2, Device::cuda());
  const Tensor v = Tensor::normal({BH, S, D}, DType::bf16, 0, 1, 3, Device::cuda()),
               o = Tensor::full({BH, S, D}, NAN, DType::bf16, Device::cuda());
  const Tensor lse = Tensor::full({BH, S}, NAN, DType::f32, Device::cuda());
  const float scale = 1 / std::sqrt(128.f), c = scale * 1.44269504f;
  Args()
      .map(q, {64, 128, 1})
      .map(kk, {64, 128, 1})
      .map(v, {64, 128, 1})
      .map(o, {64, 64, 1})
      .add(lse.data())
      .add(S)
      .add(S / 128)
      .add(c)
      .launch(b, k, {S / 128, BH, 1});
  Stream(Device::cuda()).synchronize();
  const auto qd = q.to_doubles(), kd = kk.to_doubles(), vd = v.to_doubles(), od = o.to_doubles(),
             ld = lse.to_doubles();
  double worst = 0, worst_lse = 0;
  for (int h = 0; h < BH; ++h)
    for (int i = 0; i < S; i += 5) {
      std::vector<double> p(S);
      double top = -1e300, sum = 0;
      for (int j = 0; j < S; ++j) {
        for (int d = 0; d < D; ++d) p[j] += qd[(h * S + i) * D + d] * kd[(h * S + j) * D + d];
        top = std::max(top, p[j] *= scale);
      }
      for (double& x : p) sum += x = std::exp(x - top);
      worst_lse = std::max(worst_lse, std::abs(ld[h * S + i] - (top + std::log(sum))));
      for (int d = 0; d < D; ++d) {
        double want = 0;
        for (int j = 0; j < S; ++j) want += p[j] / sum * vd[(h * S + j) * D + d];
        const double got = od[(h * S + i) * D + d];
        worst = std::isnan(got) ? 1e9 : std::max(worst, std::abs(want - got));
      }
    }
  EXPECT_LT(worst, 0.01);
  EXPECT_LT(worst_lse, 1e-3);
}

/// A register-operand wgmma may be given registers that the assembler reuses too early:
/// integer data, exact, A changing each step, many launches.
TEST_P(G0, AttentionIsTheSameTenThousandTimes) {
  const ir::Kernel k = read_kernel("attention.tir");
  const Built b = build(k, GetParam());
  const int BH = 16, S = 1024, D = 128;
  const Tensor q = Tensor::integers({BH, S, D}, DType::bf16, -2, 2, 1, Device::cuda()),
               kk = Tensor::integers({BH, S, D}, DType::bf16, -2, 2, 2, Device::cuda());
  const Tensor v = Tensor::integers({BH, S, D}, DType::bf16, -8, 8, 3, Device::cuda()),
               o = Tensor::full({BH, S, D}, NAN, DType::bf16, Device::cuda());
  const Tensor lse = Tensor::full({BH, S}, NAN, DType::f32, Device::cuda());
  Args args;
  args.map(q, {64, 128, 1})
      .map(kk, {64, 128, 1})
      .map(v, {64, 128, 1})
      .map(o, {64, 64, 1})
      .add(lse.data())
      .add(S)
      .add(S / 128)
      .add(0.25f);
  std::vector<bf16> first;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 500; ++i)
      args.launch(b, k, {static_cast<unsigned>(S / 128), static_cast<unsigned>(BH), 1});
    Stream(Device::cuda()).synchronize();
    const auto now = o.to_vector<bf16>();
    if (round == 0) first = now;
    ASSERT_EQ(std::memcmp(first.data(), now.data(), now.size() * sizeof(bf16)), 0)
        << "round " << round;
  }
}

TEST(G0Twins, BackEndsAgreeBitForBit) {
  if (Device::cuda_count() == 0 || runtime::device_properties(0).compute() != 90)
    GTEST_SKIP() << "no sm_90 GPU";
  const ir::Kernel k = read_kernel("attention.tir");
  const int BH = 4, S = 512, D = 128;
  const Tensor q = Tensor::normal({BH, S, D}, DType::bf16, 0, 1, 1, Device::cuda()),
               kk = Tensor::normal({BH, S, D}, DType::bf16, 0, 1, 2, Device::cuda());
  const Tensor v = Tensor::normal({BH, S, D}, DType::bf16, 0, 1, 3, Device::cuda());
  std::vector<std::vector<bf16>> out;
  for (bool nvrtc : {false, true}) {
    const Tensor o = Tensor::full({BH, S, D}, NAN, DType::bf16, Device::cuda()),
                 lse = Tensor::full({BH, S}, NAN, DType::f32, Device::cuda());
    Args()
        .map(q, {64, 128, 1})
        .map(kk, {64, 128, 1})
        .map(v, {64, 128, 1})
        .map(o, {64, 64, 1})
        .add(lse.data())
        .add(S)
        .add(S / 128)
        .add(0.127f)
        .launch(build(k, nvrtc), k, {S / 128, BH, 1});
    Stream(Device::cuda()).synchronize();
    out.push_back(o.to_vector<bf16>());
  }
  EXPECT_EQ(std::memcmp(out[0].data(), out[1].data(), out[0].size() * sizeof(bf16)), 0);
}

}  // namespace
}  // namespace tegula::test::g0_test
