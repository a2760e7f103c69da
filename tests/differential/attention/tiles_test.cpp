// Tiles of 192 queries, three warpgroups on Hopper, and other given ones.
#include "support/env.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::tiles_test {
using namespace kernels;
namespace {

class Tiles : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Tiles, testing::ValuesIn(devices()), device_name);

constexpr AttentionTileShape kTall{192, 128};

struct Case {
  const char* name;
  AttentionSpec spec;
  HostAttention host;
};

std::vector<Case> cases() {
  std::vector<Case> list{
      {"full", {}, {}},
      {"causal", {.mask = masks::causal()}, {}},
      {"window", {.mask = masks::window(50, 20)}, {}},
      {"prefix", {.mask = masks::prefix_lm(70)}, {}},
      {"softcap", {.mask = masks::causal(), .score = scores::softcap(1.5f)}, {}}};
  list[1].host.mask = list[4].host.mask = [](int, int, int q, int kv) { return q >= kv; };
  list[2].host.mask = [](int, int, int q, int kv) { return q - kv <= 50 && kv - q <= 20; };
  list[3].host.mask = [](int, int, int q, int kv) { return kv < 70 || q >= kv; };
  list[4].host.score = [](double s, int, int, int, int) { return 1.5 * std::tanh(s / 1.5); };
  return list;
}

/// As many warpgroups as the tile has segments of 64 rows, ordered by the warp scheduler barrier,
/// where the device computes as Hopper does.
void expect_warpgroups(const Attention& attention, const AttentionTileShape& tiles, DType dtype,
                       Device device) {
  if (device.kind == DeviceKind::cpu) return;
  const std::string said = attention.explain(dtype);
  if (device.kind == DeviceKind::cuda && said.find("wgmma=1") == std::string::npos) return;
  const std::string warps = "num_warps=" + std::to_string(tiles.block_q / 16) + " ";
  EXPECT_NE(said.find(warps), std::string::npos) << said;
  EXPECT_NE(said.find(" warp_scheduler_barrier=1 "), std::string::npos) << said;
}

void expect_right(const Case& c, const AttentionTileShape& tiles, const Extents& e, DType dtype,
                  Order order, Device device, bool pack_gqa = false) {
  SCOPED_TRACE(testing::Message() << c.name << " " << tiles.block_q << "x" << tiles.block_kv << ": "
                                  << e.str());
  // Few rows of packed heads would have their own tile.
  const Attention attention(c.spec, {.tiles = tiles, .pack_gqa = pack_gqa});
  const Tensors t(e, dtype, order, device);
  attention(Stream(device), t.Q, t.K, t.V, t.O, t.extras());
  expect_attention(c.host, t, true);
  expect_warpgroups(attention, tiles, dtype, device);
}

/// Lengths that fill no tile, one, and one and a bit, with groups of heads.
TEST_P(Tiles, Lengths) {
  for (const Case& c : cases())
    for (const auto& [q, kv] : {std::pair{1, 1}, {191, 300}, {192, 128}, {203, 517}, {413, 129}}) {
      const bool odd = q % 2 != 0;
      const Extents e{.heads = 4, .kv_heads = odd ? 2 : 4, .seqlen_q = q, .seqlen_kv = kv};
      expect_right(c, kTall, e, odd ? DType::bf16 : DType::f16, odd ? Order::bhsd : Order::bshd,
                   GetParam());
      if (HasFatalFailure()) return;
    }
}

/// More tiles than the simulator's programs, and keys for many rounds.
TEST_P(Tiles, ManyTiles) {
  const Extents e{.heads = 3, .seqlen_q = 777, .seqlen_kv = 900};
  for (const Case& c : cases())
    if (c.spec.mask && !c.spec.score)
      expect_right(c, kTall, e, DType::bf16, Order::bshd, GetParam());
}

/// Tiles that fit with larger head dims, and other tiles.
TEST_P(Tiles, OtherExtents) {
  struct Shape {
    std::int64_t dim, head_dim_v;
    AttentionTileShape tiles;
  };
  for (const Shape& s : {Shape{64, 64, {192, 112}},
                         {40, 72, {192, 112}},
                         {80, 80, {192, 112}},
                         {96, 96, {192, 96}},
                         {64, 64, {192, 16}},
                         {64, 64, {128, 224}},
                         {128, 128, {128, 48}}}) {
    const Extents e{
        .heads = 2, .seqlen_q = 230, .seqlen_kv = 340, .dim = s.dim, .head_dim_v = s.head_dim_v};
    for (const std::size_t i : {1U, 2U})
      expect_right(cases()[i], s.tiles, e, DType::bf16, Order::bhsd, GetParam());
    if (HasFatalFailure()) return;
  }
}

/// Results that go through shared memory and TMA, of lengths that fill no tile.
TEST_P(Tiles, StoredByTma) {
  Env changed = env();
  changed.plan = "tma_store=1";
  const EnvOverride scope(changed);
  for (const AttentionTileShape& tiles : {AttentionTileShape{128, 128}, {128, 176}, kTall})
    for (const auto& [q, kv] : {std::pair{1, 1}, {413, 129}, {203, 517}}) {
      const Case c = cases()[1];
      const int dim = tiles.block_q == 192 ? 64 : 128;
      const Extents e{.heads = 3, .seqlen_q = q, .seqlen_kv = kv, .dim = dim, .head_dim_v = dim};
      SCOPED_TRACE(testing::Message() << tiles.block_q << "x" << tiles.block_kv << ": " << e.str());
      const Attention attention(c.spec, {.tiles = tiles});
      const Tensors t(e, DType::bf16, q == 1 ? Order::bhsd : Order::bshd, GetParam());
      attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
      expect_attention(c.host, t);
      if (HasFatalFailure()) return;
      if (GetParam().kind == DeviceKind::cpu) continue;
      const std::string said = attention.explain(DType::bf16);
      if (GetParam().kind == DeviceKind::cuda && said.find("wgmma=1") == std::string::npos)
        continue;
      EXPECT_NE(said.find("applied: stored by TMA"), std::string::npos) << said;
    }
}

TEST_P(Tiles, QueriesAtTheEnd) {
  Case c = cases()[1];
  c.spec.align_bottom_right = true;
  c.host.mask = [](int, int, int q, int kv) { return q + 600 - 230 >= kv; };
  expect_right(c, kTall, {.heads = 2, .seqlen_q = 230, .seqlen_kv = 600}, DType::bf16, Order::bhsd,
               GetParam());
}

/// Rows of a tile are of several heads, or of a part of a tensor.
TEST_P(Tiles, PackedHeadsAndSequences) {
  const Case c = cases()[1];
  expect_right(c, kTall, {.heads = 6, .kv_heads = 2, .seqlen_q = 100, .seqlen_kv = 150},
               DType::bf16, Order::bhsd, GetParam(), true);
  const Attention attention(c.spec, {.tiles = kTall});
  const Tensors t({.heads = 2, .kv_heads = 2, .seqlen_q = 450, .seqlen_kv = 460}, DType::bf16,
                  Order::bshd, GetParam());
  const auto rows = [](const Tensor& x) { return x.select(0, 0).transpose(0, 1); };
  const std::vector<i32> q{0, 250, 250, 450}, kv{0, 260, 280, 460};
  attention.varlen(Stream(GetParam()), rows(t.Q), rows(t.K), rows(t.V), rows(t.O),
                   {Tensor::from(q, GetParam()), Tensor::from(kv, GetParam()), 250},
                   {rows(t.Lse), rows(t.Max), {}});
  for (std::size_t b = 0; b < 3; ++b)
    for (int h = 0; h < 2; ++h) {
      const auto part = [&](const Tensor& x, const std::vector<i32>& at) {
        return x.select(0, 0).select(0, h).slice(0, at[b], at[b + 1]);
      };
      expect_head(c.host,
                  Tensors(part(t.Q, q), part(t.K, kv), part(t.V, kv), part(t.O, q), part(t.Lse, q),
                          part(t.Max, q)),
                  static_cast<int>(b), h);
      if (HasFatalFailure()) return;
    }
}

/// As GPUs before Hopper compute: six warps of two times 16 rows; and each of the plan's fields.
TEST_P(Tiles, OtherPlans) {
  for (const char* plan :
       {"wgmma=0 producer_warps=0 consumer_registers=0 persistent=0 stages=2 num_warps=6 warps_m=6",
        "wgmma=0 producer_warps=0 consumer_registers=0 persistent=0 stages=2",
        "producer_warps=0 consumer_registers=0", "producer_warps=1 consumer_registers=0",
        "persistent=0 stage_stores=1", "warp_scheduler_barrier=0", "dynamic_scheduler=1",
        "tma_store=1", "tma_store=1 dynamic_scheduler=1"}) {
    SCOPED_TRACE(plan);
    Env changed = env();
    changed.plan = plan;
    const EnvOverride scope(changed);
    const Case c = cases()[1];
    const Attention attention(c.spec, {.tiles = kTall});
    const Tensors t({.heads = 2, .seqlen_q = 413, .seqlen_kv = 400}, DType::bf16, Order::bhsd,
                    GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    expect_attention(c.host, t);
    if (HasFatalFailure()) return;
  }
}

/// Lists are of the tiles that attention chooses.
TEST_P(Tiles, WithoutEffectUnderLists) {
  std::vector<i32> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(i / 70);
  Case c{"document",
         {.mask = masks::and_(masks::document(Tensor::from(ids, GetParam())), masks::causal())},
         {}};
  c.host.mask = [](int, int, int q, int kv) { return q / 70 == kv / 70 && q >= kv; };
  const Attention attention(c.spec, {.tiles = kTall});
  const Tensors t({.heads = 2, .seqlen_q = 300, .seqlen_kv = 300}, DType::bf16, Order::bhsd,
                  GetParam());
  attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
  expect_attention(c.host, t);
}

}  // namespace
}  // namespace tegula::test::tiles_test
