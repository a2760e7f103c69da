// NaN and infinities in keys and values that no row of a query tile may attend to do not reach its
// results, although the tile loads their block: a weight of 0 times NaN would be NaN.
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/attention_reference.h"
#include "tests/differential/attention/varlen_tensors.h"

namespace tegula::test::hidden_values_test {
using namespace kernels;
namespace {

class HiddenValues : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, HiddenValues, testing::ValuesIn(devices()), device_name);

using HostMask = std::function<bool(int b, int h, int q, int kv)>;

struct Case {
  const char* name;
  AttentionSpec spec;
  HostMask mask;
  std::vector<RowRange> hidden;
};

void expect_unspoiled(const Case& c, const Extents& e, DType dtype, Device device,
                      const AttentionSchedule& schedule = {}) {
  SCOPED_TRACE(testing::Message() << c.name << " " << e.str() << name(dtype));
  const Tensors t(e, dtype, Order::bhsd, device);
  spoil(t, c.hidden);
  HostAttention host;
  host.mask = c.mask;
  for (const Rescaling rescaling : {Rescaling::automatic, Rescaling::never}) {
    const Attention attention(c.spec, schedule, {rescaling});
    attention(Stream(device), t.Q, t.K, t.V, t.O, t.Lse);
    expect_attention(host, t);
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// Blocks of 96 keys begin at the first key that a row of the tile sees.
std::vector<Case> cases_of_128_queries() {
  AttentionSpec at_end{.mask = masks::sliding_window(40)};
  at_end.align_bottom_right = true;
  AttentionSpec given{.mask = masks::causal()};
  given.kv_range = causal_range;
  return {
      {"causal",
       {.mask = masks::causal()},
       [](int, int, int q, int kv) { return q >= kv; },
       {{128, 400}}},
      {"window at the end",
       at_end,
       [](int, int, int q, int kv) { return q + 272 >= kv && q + 272 - kv <= 40; },
       {{0, 232}}},
      {"window to both sides",
       {.mask = [](Tile, Tile, Tile q, Tile kv) { return q - kv <= 40 && kv - q <= 40; }},
       [](int, int, int q, int kv) { return std::abs(q - kv) <= 40; },
       {{168, 400}}},
      {"two intervals",
       {.mask = [](Tile, Tile, Tile, Tile kv) { return kv < 20 || (kv >= 300 && kv < 330); }},
       [](int, int, int, int kv) { return kv < 20 || (kv >= 300 && kv < 330); },
       {{20, 300}, {330, 400}}},
      {"a given range", given, [](int, int, int q, int kv) { return q >= kv; }, {{128, 400}}},
      {"a given range alone",
       {.kv_range = [](const Tile&, const Tile&,
                       const Tile&) { return KvRange{full<i32>(20), full<i32>(150)}; }},
       [](int, int, int, int kv) { return kv >= 20 && kv < 150; },
       {{0, 20}, {150, 400}}},
  };
}

TEST_P(HiddenValues, BeforeAndAfterTheVisibleRange) {
  const Extents e{.seqlen_q = 128, .seqlen_kv = 400, .head_dim_v = 72};
  const AttentionSchedule schedule{.tiles = AttentionTileShape{128, 96}};
  const std::vector<Case> cases = cases_of_128_queries();
  expect_unspoiled(cases.front(), e, DType::f16, GetParam(), schedule);
  for (const Case& c : cases) {
    if (HasFatalFailure()) return;
    expect_unspoiled(c, e, DType::bf16, GetParam(), schedule);
  }
}

TEST_P(HiddenValues, AllHeadDims) {
  const std::vector<Case> cases = cases_of_128_queries();
  for (const auto& [dim, keys] : {std::pair{96, 80}, {128, 48}, {256, 80}}) {
    expect_unspoiled(cases.front(),
                     {.seqlen_q = 128, .seqlen_kv = 400, .dim = dim, .head_dim_v = dim},
                     DType::bf16, GetParam(), {.tiles = AttentionTileShape{128, keys}});
    if (HasFatalFailure()) return;
  }
}

/// The keys of a cache that is not full, for one query and for a few: its programs share the keys.
TEST_P(HiddenValues, AfterTheKeysOfACache) {
  for (const int queries : {1, 3}) {
    Scalar<i32> seqlen_q = queries, seqlen_kv = 1000;
    const Case c{"cache",
                 {.mask = masks::causal_bottom_right(seqlen_q, seqlen_kv)},
                 [=](int, int, int q, int kv) { return q + 1000 - queries >= kv; },
                 {{1000, 1200}}};
    expect_unspoiled(c, {.heads = 8, .kv_heads = 2, .seqlen_q = queries, .seqlen_kv = 1200},
                     DType::bf16, GetParam());
    if (HasFatalFailure()) return;
  }
}

/// All of the cache, where a request has no keys yet, split or not.
TEST_P(HiddenValues, AnEmptyCache) {
  for (const int parts : {1, 4}) {
    const Case c{"empty cache",
                 {.mask = [length = Scalar<i32>(0)](const Tile&, const Tile&, const Tile&,
                                                    const Tile& kv) { return kv < length; }},
                 [](int, int, int, int) { return false; },
                 {{0, 1200}}};
    expect_unspoiled(c, {.heads = 8, .kv_heads = 2, .seqlen_q = 1, .seqlen_kv = 1200}, DType::bf16,
                     GetParam(), {.split_kv = parts});
    if (HasFatalFailure()) return;
  }
}

/// The blocks of keys 128 to 255 and those from 384 on are in no list.
TEST_P(HiddenValues, InUnselectedBlocks) {
  AttentionSpec spec;
  spec.blocks = BlockList{Tensor::from(std::vector<i32>{0, 2}, {1, 1, 1, 2}, GetParam()),
                          Tensor::from(std::vector<i32>{2}, {1, 1, 1}, GetParam())};
  const Case c{"blocks",
               spec,
               [](int, int, int, int kv) { return kv / 128 == 0 || kv / 128 == 2; },
               {{128, 256}, {384, 500}}};
  expect_unspoiled(c, {.seqlen_q = 100, .seqlen_kv = 500}, DType::bf16, GetParam());
}

/// Keys and values of a sequence without queries are between those of two others, and spare rows
/// follow the last: without a mask, under one of a single range, and under one with lists.
TEST_P(HiddenValues, OtherSequences) {
  const Lengths lengths{{70, 0, 133}, {50, 40, 150}};
  struct Masked {
    AttentionSpec spec;
    HostMask mask;
  };
  const std::vector<Masked> cases{
      {{}, [](int, int, int, int) { return true; }},
      {{.mask = masks::causal()}, [](int, int, int q, int kv) { return q >= kv; }},
      {{.mask = [](Tile, Tile, Tile q, Tile kv) { return (q - kv) / 16 % 2 == 0; }},
       [](int, int, int q, int kv) { return (q - kv) / 16 % 2 == 0; }}};
  for (const Masked& c : cases) {
    const Packed p(lengths, 2, 1, 64, 64, DType::bf16, GetParam(), /*spare=*/64);
    spoil(p.all, {{50, 90}, {240, 304}}, 0);
    const Attention attention(c.spec);
    attention.varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                     p.all.extras());
    HostAttention host;
    host.mask = c.mask;
    p.expect(host);
    if (HasFatalFailure()) return;
  }
}

/// NaN in visible rows still reaches the output.
TEST_P(HiddenValues, AreSeenByTheRowsThatAttendToThem) {
  const Tensors t({.seqlen_q = 256, .seqlen_kv = 256}, DType::bf16, Order::bhsd, GetParam());
  t.V.slice(2, 128, 129).fill(NAN);
  const Attention attention({.mask = masks::causal()}, {.tiles = AttentionTileShape{128, 96}});
  attention(Stream(GetParam()), t.Q, t.K, t.V, t.O);
  const std::vector<double> out = t.O.to_doubles();
  for (std::size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(std::isnan(out[i]), i / 64 >= 128) << "row " << i / 64;
}

}  // namespace
}  // namespace tegula::test::hidden_values_test
