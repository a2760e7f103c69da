// One kernel object, or one Attention, called with strides of both signs in either order.
#include "dsl/instance.h"
#include "tegula/tegula.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::reused_test {
namespace {

class Reused : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Reused, testing::ValuesIn(devices()), device_name);

constexpr std::int64_t kSize = 64;

auto product() {
  return kernel("mm", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    for (auto [i, j] : grid(C, 64, 64)) {
      Tile acc = zeros<f32>(64, 64);
      for (auto p : steps(A.cols(), 32)) acc = dot(A(i, p), B(p, j), acc);
      C(i, j) = acc;
    }
  });
}

void expect_product(const Tensor& A, const Tensor& B, const Tensor& C) {
  const auto a = A.to_doubles(), b = B.to_doubles(), c = C.to_doubles();
  for (std::int64_t i = 0; i < kSize; ++i)
    for (std::int64_t j = 0; j < kSize; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < kSize; ++p)
        sum +=
            a[static_cast<std::size_t>(i * kSize + p)] * b[static_cast<std::size_t>(p * kSize + j)];
      ASSERT_EQ(c[static_cast<std::size_t>(i * kSize + j)], sum) << i << " " << j;
    }
}

TEST_P(Reused, AKernelForStridesOfBothSigns) {
  const auto integers = [](int seed) {
    return Tensor::integers({kSize, kSize}, DType::bf16, -3, 4, static_cast<std::uint64_t>(seed),
                            GetParam());
  };
  const Tensor a = integers(1), b = integers(2);
  const Tensor c = Tensor::empty({kSize, kSize}, DType::f32, GetParam());
  struct Call {
    const char* name;
    Tensor A, B, C;
  };
  const std::vector<Call> turned{{"A", a.flip(0), b, c},
                                 {"B", a, b.flip(0), c},
                                 {"C", a, b, c.flip(0)},
                                 {"A twice", a.flip(0).flip(1), b, c}};
  for (const Call& t : turned)
    for (const bool plain_first : {true, false}) {
      SCOPED_TRACE(t.name);
      const auto k = product();
      const Call plain{"plain", a, b, c};
      for (const Call* call :
           plain_first ? std::vector{&plain, &t, &plain} : std::vector{&t, &plain, &t}) {
        k(call->A, call->B, call->C);
        expect_product(call->A, call->B, call->C);
      }
      EXPECT_EQ(k.instance().launcher.compiled(), 2u);  // plain calls run the faster kernel
    }
}

TEST_P(Reused, AKernelForTransposedAndRepeatedRows) {
  const Tensor a = Tensor::integers({kSize, kSize}, DType::bf16, -3, 4, 1, GetParam());
  const Tensor c = Tensor::empty({kSize, kSize}, DType::f32, GetParam());
  const auto k = product();
  for (const Tensor& A : {a, a.transpose(0, 1), a.slice(0, 3, 4).broadcast_to({kSize, kSize})}) {
    k(A, a, c);
    expect_product(A, a, c);
  }
}

TEST_P(Reused, AnAttentionForStridesOfBothSigns) {
  for (const bool plain_first : {true, false}) {
    const Attention attention({});
    const Tensors plain({.heads = 2, .seqlen_q = 64, .seqlen_kv = 64}, DType::bf16, Order::bhsd,
                        GetParam());
    Tensors turned = plain;
    turned.K = turned.K.flip(2);
    turned.V = turned.V.flip(2);
    for (const Tensors* t : plain_first ? std::vector{&plain, &std::as_const(turned), &plain}
                                        : std::vector{&std::as_const(turned), &plain}) {
      attention(Stream(GetParam()), t->Q, t->K, t->V, t->O, t->Lse);
      expect_attention({}, *t);
    }
  }
}

}  // namespace
}  // namespace tegula::test::reused_test
