// Head dims of attention: any multiple of 8 up to 256, values of another one, both orders in
// memory.
#include "tests/differential/attention/attention_reference.h"

#include "support/env.h"
#include "tegula/kernels/masks.h"

namespace tegula::test::head_dims_test {
using namespace kernels;
namespace {

class HeadDims : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, HeadDims, testing::ValuesIn(devices()), device_name);

struct Dim {
  std::int64_t dim, head_dim_v;
};

void expect_right(const Attention& attention, Dim d, DType dtype, Order order, Device device) {
  SCOPED_TRACE(testing::Message() << name(dtype) << " " << d.dim << " " << d.head_dim_v);
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv - 9; };
  const Extents e{
      .heads = 2, .seqlen_q = 41, .seqlen_kv = 136, .dim = d.dim, .head_dim_v = d.head_dim_v};
  const Tensors t(e, dtype, order, device);
  attention(Stream(device), t.Q, t.K, t.V, t.O, t.Lse);
  expect_attention(host, t);
}

Attention nearly_causal() { return Attention({.mask = masks::window(1000, 9)}); }

/// Every multiple of 8, with values of the same head dim and of another.
TEST_P(HeadDims, MultiplesOf8) {
  const Attention attention = nearly_causal();
  for (std::int64_t dim = 8; dim <= 256; dim += 8) {
    const bool odd = dim / 8 % 2 != 0;
    const DType dtype = dim / 8 % 4 < 2 ? DType::bf16 : DType::f16;
    expect_right(attention, {dim, dim}, dtype, odd ? Order::bhsd : Order::bshd, GetParam());
    expect_right(attention, {dim, 264 - dim}, dtype, odd ? Order::bshd : Order::bhsd, GetParam());
    if (HasFatalFailure()) return;
    if (GetParam().kind == DeviceKind::sim) {
      EXPECT_NE(attention.explain(dtype).find("dot by wgmma"), std::string::npos) << dim;
    }
  }
}

/// As GPUs before Hopper compute.
TEST_P(HeadDims, ByMma) {
  Env older = env();
  older.plan = "wgmma=0 producer_warps=0 consumer_registers=0 persistent=0 stages=2";
  const EnvOverride scope(older);
  const Attention attention = nearly_causal();
  for (const Dim d :
       {Dim{8, 8}, {40, 72}, {80, 80}, {96, 112}, {160, 192}, {200, 200}, {192, 128}}) {
    expect_right(attention, d, DType::bf16, Order::bhsd, GetParam());
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tegula::test::head_dims_test
