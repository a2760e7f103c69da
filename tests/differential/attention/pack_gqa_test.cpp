// Few queries: the heads of a group as rows of one tile.
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::pack_gqa_test {
using namespace kernels;
namespace {

class PackedHeads : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, PackedHeads, testing::ValuesIn(devices()), device_name);

/// The last query is at the last key; each head has its own slope and sink.
struct Decode {
  Scalar<i32> seqlen_q = 1, seqlen_kv = 1;
  std::vector<float> sinks{0.5f, 2, -1, 0, 1, 3, -2, 0.25f, 0, 1, 2, 3, 4, 5};

  AttentionSpec spec() const {
    return {.mask = masks::causal_bottom_right(seqlen_q, seqlen_kv),
            .score = [](Tile s, Tile b, Tile h, Tile q, Tile kv) {
              return s + cast<f32>(kv - q) * 0.02f * cast<f32>(h + b);
            }};
  }
  HostAttention host(int q_rows, int kv_rows) const {
    HostAttention host;
    host.mask = [=](int, int, int q, int kv) { return q + kv_rows - q_rows >= kv; };
    host.score = [](double s, int b, int h, int q, int kv) {
      return s + (kv - q) * 0.02 * (h + b);
    };
    host.sink = [this](int h) { return sinks[static_cast<std::size_t>(h)]; };
    return host;
  }
};

TEST_P(PackedHeads, AgreeWithTheReference) {
  Decode decode;
  const Attention attention(decode.spec());
  struct Shape {
    int heads, kv_heads, seqlen_q, seqlen_kv;
    Order order;
  };
  for (const Shape s : {Shape{8, 2, 1, 300, Order::bshd},
                        {14, 2, 1, 77, Order::bhsd},
                        {4, 1, 3, 129, Order::bhsd},
                        {14, 2, 16, 200, Order::bhsd},
                        {8, 2, 5, 131, Order::bshd},  // rows are not evenly spaced: one head a tile
                        {3, 3, 2, 64, Order::bhsd}}) {
    SCOPED_TRACE(testing::Message() << s.heads << "/" << s.kv_heads << " " << s.seqlen_q);
    decode.seqlen_q = s.seqlen_q;
    decode.seqlen_kv = s.seqlen_kv;
    const Tensors t({.batch = 2,
                     .heads = s.heads,
                     .kv_heads = s.kv_heads,
                     .seqlen_q = s.seqlen_q,
                     .seqlen_kv = s.seqlen_kv,
                     .head_dim_v = 72},
                    DType::bf16, s.order, GetParam());
    const std::vector<float> sinks(decode.sinks.begin(), decode.sinks.begin() + s.heads);
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras(Tensor::from(sinks, GetParam())));
    expect_attention(decode.host(s.seqlen_q, s.seqlen_kv), t, /*maxima=*/true);
    if (HasFatalFailure()) return;
  }
}

/// One tile a group: a quarter of the programs, tiles of 64 rows, keys by TMA; and no new kernel
/// while the cache grows.
TEST_P(PackedHeads, OneKernelWhileTheCacheGrows) {
  Decode decode;
  const Attention attention(decode.spec());
  for (const int seqlen_kv : {64, 65, 66, 67, 68, 130, 256}) {
    decode.seqlen_kv = seqlen_kv;
    const Tensors t({.heads = 8, .kv_heads = 2, .seqlen_kv = seqlen_kv}, DType::bf16, Order::bshd,
                    GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    HostAttention host = decode.host(1, seqlen_kv);
    host.sink = [](int) { return -INFINITY; };
    expect_attention(host, t);
    if (HasFatalFailure()) return;
    const std::string why = attention.explain();
    EXPECT_EQ(why.find("compiled", why.find("compiled") + 1), std::string::npos) << why;
    if (GetParam().kind == DeviceKind::sim) {
      EXPECT_NE(why.find("dot by wgmma sum=tile<64x"), std::string::npos) << why;
    }
  }
}

TEST_P(PackedHeads, AreTheCallersChoice) {
  const Tensors t({.heads = 4, .kv_heads = 2, .seqlen_q = 40, .seqlen_kv = 70}, DType::f16,
                  Order::bhsd, GetParam());
  for (const std::optional<bool> pack : {std::optional<bool>(), {false}, {true}}) {
    const Attention attention({}, {.pack_gqa = pack});
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    expect_attention({}, t);
    const bool is_packed =
        attention.dump("key", DType::f16).find("constant 0x1\n") != std::string::npos;
    EXPECT_EQ(is_packed, pack.value_or(false));
  }
}

}  // namespace
}  // namespace tegula::test::pack_gqa_test
