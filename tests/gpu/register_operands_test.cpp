// A wgmma that takes A from registers may be given registers which the assembler reuses before they
// are read. Each launch of ten thousand is compared on the GPU with what is right, by
// both back ends.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/context.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/tegula.h"
#include "tests/differential/attention/attention_reference.h"
#include "tests/differential/attention/exact_attention.h"
#include "tests/gpu/two_products.h"

namespace tegula::register_operands_test {
using namespace kernels;
namespace {

constexpr int kLaunches = 10000;

auto comparing() {
  return kernel("compare", [](InOut<bf16, 1> got, In<bf16, 1> want, InOut<i32, 1> wrong) {
    for (auto i : grid(got, 1024)) {
      wrong(i) = wrong(i) + cast<i32>(got(i) != want(i));
      got(i) = full<bf16>(-1, 1024);
    }
  });
}

/// Counts elements of `got` that are not those of `want`, and spoils `got` for the next launch.
class Comparison {
 public:
  Comparison(const Tensor& got, const Tensor& want)
      : got_(got.reshape({got.numel()})),
        want_(want.reshape({want.numel()})),
        wrong_(Tensor::zeros({got.numel()}, DType::i32, Device::cuda())) {}

  void run(const Stream& stream) const { compare_(stream, got_, want_, wrong_); }
  std::int64_t wrong() const {
    std::int64_t sum = 0;
    for (const i32 w : wrong_.to_vector<i32>()) sum += w;
    return sum;
  }

 private:
  Tensor got_, want_, wrong_;
  decltype(comparing()) compare_ = comparing();
};

class RegisterOperands : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
    if (runtime::device_properties(0).compute() != 90) GTEST_SKIP() << "not an sm_90 GPU";
    Env with = env();
    with.backend = GetParam();
    backend_.emplace(with);
  }
  std::optional<EnvOverride> backend_;
};
INSTANTIATE_TEST_SUITE_P(BackEnds, RegisterOperands, testing::Values("llvm", "nvrtc"),
                         [](const auto& i) { return std::string(i.param); });

/// Scores are integers of up to 64, so exact in bf16, and sums are integers below 2^24.
TEST_P(RegisterOperands, TwoMmasAreExactTenThousandTimes) {
  const auto products = two_products(64);
  const int H = 8, S = 512, D = 64;
  const Device gpu = Device::cuda();
  const Tensor q = Tensor::integers({H, S, D}, DType::bf16, -1, 2, 1, gpu),
               k = Tensor::integers({H, S, D}, DType::bf16, -1, 2, 2, gpu),
               v = Tensor::integers({H, S, D}, DType::bf16, -1, 2, 3, gpu),
               o = Tensor::full({H, S, D}, -1, DType::bf16, gpu);
  const auto a = q.to_vector<bf16>(), b = k.to_vector<bf16>(), c = v.to_vector<bf16>();
  const std::vector<float> qf(a.begin(), a.end()), kf(b.begin(), b.end()), vf(c.begin(), c.end());
  std::vector<bf16> want(a.size());
  for (int h = 0; h < H; ++h)
    for (int i = 0; i < S; ++i) {
      std::vector<float> sum(D);
      const float* row = &qf[(static_cast<std::size_t>(h) * S + i) * D];
      for (int j = 0; j < S; ++j) {
        const auto at = (static_cast<std::size_t>(h) * S + j) * D;
        float score = 0;
        for (int d = 0; d < D; ++d) score += row[d] * kf[at + d];
        for (int d = 0; d < D; ++d) sum[d] += score * vf[at + d];
      }
      for (int d = 0; d < D; ++d)
        want[(static_cast<std::size_t>(h) * S + i) * D + d] = bf16(sum[d]);
    }
  const Stream stream = Stream::create(gpu);
  const Comparison comparison(o, Tensor::from(want, {H, S, D}, gpu));
  for (int i = 0; i < kLaunches; ++i) {
    products(stream, q, k, v, o);
    comparison.run(stream);
  }
  stream.synchronize();
  EXPECT_EQ(comparison.wrong(), 0);
}

/// The library's attention where every bit is known.
TEST_P(RegisterOperands, AttentionIsExactTenThousandTimes) {
  const Device gpu = Device::cuda();
  const Attention attention({.mask = masks::causal()});
  for (const int D : {64, 128, 256}) {
    SCOPED_TRACE(D);
    const test::ExactAttention t(8, 512, D, gpu);
    const Tensor o = Tensor::full(t.want.shape(), -1, DType::bf16, gpu);
    const Stream stream = Stream::create(gpu);
    const Comparison comparison(o, t.want);
    for (int i = 0; i < kLaunches; ++i) {
      attention(stream, t.Q, t.K, t.V, o);
      comparison.run(stream);
    }
    stream.synchronize();
    EXPECT_EQ(comparison.wrong(), 0);
  }
}

/// With weights of all sizes: the first launch against double precision, the others against it.
TEST_P(RegisterOperands, AttentionIsTheSameTenThousandTimes) {
  const Device gpu = Device::cuda();
  const Attention attention({.mask = masks::causal()});
  test::HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  for (const int D : {64, 128, 256}) {
    SCOPED_TRACE(D);
    const test::Tensors first(
        {.heads = 8, .seqlen_q = 512, .seqlen_kv = 512, .dim = D, .head_dim_v = D}, DType::bf16,
        test::Order::bhsd, gpu);
    const Tensor o = Tensor::full(first.O.shape(), -1, DType::bf16, gpu);
    const Stream stream = Stream::create(gpu);
    attention(stream, first.Q, first.K, first.V, first.O, first.Lse);
    stream.synchronize();
    test::expect_attention(host, first);
    if (HasFatalFailure()) return;
    const Comparison comparison(o, first.O);
    for (int i = 0; i < kLaunches; ++i) {
      attention(stream, first.Q, first.K, first.V, o);
      comparison.run(stream);
    }
    stream.synchronize();
    EXPECT_EQ(comparison.wrong(), 0);
  }
}

}  // namespace
}  // namespace tegula::register_operands_test
