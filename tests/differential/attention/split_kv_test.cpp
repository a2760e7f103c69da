// Few queries with many keys: the CTAs of a cluster share the keys of a tile.
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::split_kv_test {
using namespace kernels;
namespace {

class SplitKeys : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, SplitKeys, testing::ValuesIn(devices()), device_name);

/// Returns the number of programs of a cluster that share a tile of the last kernel.
int splits_of(const Attention& attention, DType dtype = DType::bf16) {
  const std::string text = attention.dump("trace", dtype), word = " cluster(";
  const std::size_t at = text.find(word);
  return at == std::string::npos ? 1 : std::stoi(text.substr(at + word.size()));
}

struct Shape {
  int heads, kv_heads, seqlen_q, seqlen_kv, splits;
  Order order = Order::bhsd;
};

/// Eight programs for 1024 keys and more; lengths that are not multiples of their blocks leave the
/// last programs few keys or none. Two heads of one group with one query are packed.
TEST_P(SplitKeys, AgreeWithTheReference) {
  Scalar<i32> seqlen_q = 1, seqlen_kv = 1;
  const Attention attention({.mask = masks::causal_bottom_right(seqlen_q, seqlen_kv)});
  for (const Shape s : {Shape{4, 2, 1, 1024, 8},
                        {2, 1, 1, 1023, 1},
                        {4, 2, 1, 1100, 8, Order::bshd},
                        {4, 1, 5, 2050, 8},
                        {3, 3, 1, 2500, 8},
                        {3, 3, 64, 1030, 8},
                        {3, 3, 65, 1030, 1}}) {
    SCOPED_TRACE(testing::Message()
                 << s.heads << "/" << s.kv_heads << " " << s.seqlen_q << " " << s.seqlen_kv);
    seqlen_q = s.seqlen_q;
    seqlen_kv = s.seqlen_kv;
    const Tensors t({.heads = s.heads,
                     .kv_heads = s.kv_heads,
                     .seqlen_q = s.seqlen_q,
                     .seqlen_kv = s.seqlen_kv,
                     .head_dim_v = 72},
                    DType::bf16, s.order, GetParam());
    const std::vector<float> all{0.5f, 2, -1, 0}, sinks(all.begin(), all.begin() + s.heads);
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras(Tensor::from(sinks, GetParam())));
    HostAttention host;
    host.mask = [=](int, int, int q, int kv) { return q + s.seqlen_kv - s.seqlen_q >= kv; };
    host.sink = [&](int h) { return sinks[static_cast<std::size_t>(h)]; };
    expect_attention(host, t, /*maxima=*/true);
    if (HasFatalFailure()) return;
    if (GetParam().kind == DeviceKind::sim) {
      EXPECT_EQ(splits_of(attention), s.splits);
    }
  }
}

/// Rows that attend to keys of one program only, or to none; two ranges of keys; f16 and a score.
TEST_P(SplitKeys, UnderMasks) {
  struct Case {
    AttentionSpec spec;
    HostAttention host;
  };
  const auto sees_few = [](int, int, int q, int kv) { return kv >= 900 * q && kv < 900 * q + 40; };
  const auto sees_ends = [](int, int, int q, int kv) { return kv < 20 || kv > 1000 + q; };
  const auto falls = [](double s, int, int, int q, int kv) { return s + 0.01 * (q - kv); };
  const std::vector<Case> cases{
      {{.mask = [](auto, auto, auto q, auto kv) { return kv >= 900 * q && kv < 900 * q + 40; }},
       {.mask = sees_few}},
      {{.mask = [](auto, auto, auto q, auto kv) { return kv < 20 || kv > 1000 + q; }},
       {.mask = sees_ends}},
      {{.score = [](auto s, auto, auto, auto q, auto kv) { return s + cast<f32>(q - kv) * 0.01f; }},
       {.score = falls}}};
  for (const bool in_memory : {false, true})
    for (const Case& c : cases) {
      AttentionSchedule schedule;
      if (in_memory) schedule.split_kv = 16;
      const Attention attention(c.spec, schedule);
      const Tensors t({.heads = 4, .kv_heads = 2, .seqlen_q = 3, .seqlen_kv = 1030}, DType::f16,
                      Order::bhsd, GetParam());
      attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
      expect_attention(c.host, t);
      if (GetParam().kind == DeviceKind::sim) {
        EXPECT_EQ(splits_of(attention, DType::f16), 8);
        EXPECT_EQ(meets_in_memory(attention, DType::f16), in_memory);
      }
      if (HasFatalFailure()) return;
    }
}

/// Several programs without keys, or keys of the first one only, with lazy rescaling.
TEST_P(SplitKeys, NoKeysAndOne) {
  for (const int seqlen_kv : {0, 1, 300}) {
    const Attention attention({}, {.split_kv = 4}, {.rescaling = Rescaling::lazy});
    const Tensors t({.batch = 2, .heads = 2, .seqlen_q = 2, .seqlen_kv = seqlen_kv}, DType::bf16,
                    Order::bhsd, GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    expect_attention({}, t);
    if (HasFatalFailure()) return;
  }
  for (const int splits : {4, 32}) {
    const Tensors no_entries({.batch = 0, .heads = 2, .seqlen_kv = 300}, DType::bf16, Order::bhsd,
                             GetParam());
    const Tensors no_queries({.heads = 2, .seqlen_q = 0, .seqlen_kv = 300}, DType::bf16,
                             Order::bhsd, GetParam());
    for (const Tensors* t : {&no_entries, &no_queries})
      Attention({}, {.split_kv = splits})(Stream(GetParam()), t->Q, t->K, t->V, t->O, t->Lse);
  }
}

/// Partial results of several clusters are combined through memory: more than are read at once,
/// more than there are kv blocks, heads packed or not, sinks and maxima, one call after another on
/// one stream.
TEST_P(SplitKeys, SeveralClusters) {
  struct Case {
    int splits, heads, kv_heads, seqlen_q, seqlen_kv, programs;
  };
  for (const Case& s : {Case{6, 2, 1, 1, 1000, 2},
                        {12, 4, 1, 3, 1100, 4},
                        {24, 1, 1, 40, 1500, 8},
                        {64, 2, 1, 1, 700, 2},
                        {10, 1, 1, 2, 1, 2}}) {
    SCOPED_TRACE(testing::Message() << s.splits << " of " << s.seqlen_kv);
    Scalar<i32> seqlen_q = s.seqlen_q, seqlen_kv = s.seqlen_kv;
    const Attention attention({.mask = masks::causal_bottom_right(seqlen_q, seqlen_kv)},
                              {.split_kv = s.splits});
    const Tensors t({.batch = 2,
                     .heads = s.heads,
                     .kv_heads = s.kv_heads,
                     .seqlen_q = s.seqlen_q,
                     .seqlen_kv = s.seqlen_kv,
                     .head_dim_v = 72},
                    DType::bf16, Order::bhsd, GetParam());
    const std::vector<float> all{0.5f, 2, -1, 0}, sinks(all.begin(), all.begin() + s.heads);
    HostAttention host;
    host.mask = [=](int, int, int q, int kv) { return q + s.seqlen_kv - s.seqlen_q >= kv; };
    host.sink = [&](int h) { return sinks[static_cast<std::size_t>(h)]; };
    for (int call = 0; call < 2; ++call) {
      attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras(Tensor::from(sinks, GetParam())));
      expect_attention(host, t, /*maxima=*/true);
      if (HasFatalFailure()) return;
    }
    if (GetParam().kind == DeviceKind::sim) {
      EXPECT_EQ(splits_of(attention), s.programs);
      EXPECT_TRUE(meets_in_memory(attention));
    }
  }
}

/// The default is as many CTAs as run at once and have enough keys: fewer per tile if there are
/// many tiles, and several clusters if reading takes longer than combining their results.
TEST_P(SplitKeys, ByTilesAndKeys) {
  struct Case {
    int heads, seqlen_kv, programs;
    bool several;
  };
  for (const Case& c : {Case{20, 1024, 4, false}, {1, 2048, 8, false}, {1, 8192, 8, true}}) {
    SCOPED_TRACE(testing::Message() << c.heads << " heads, " << c.seqlen_kv << " keys");
    const Attention attention(AttentionSpec{});
    const Tensors t({.heads = c.heads, .kv_heads = c.heads, .seqlen_kv = c.seqlen_kv}, DType::bf16,
                    Order::bhsd, GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    expect_attention({}, t);
    if (GetParam().kind != DeviceKind::sim) continue;  // which has as many SMs as an H200
    EXPECT_EQ(splits_of(attention), c.programs);
    EXPECT_EQ(meets_in_memory(attention), c.several);
  }
}

/// One cluster per tile if not all clusters can run at once: the partial results would need much
/// memory.
TEST(SplitKeysOfSim, SeveralClustersAtOnce) {
  const Attention attention({}, {.split_kv = 16});
  const auto run = [&](int heads) {
    const Tensors t({.heads = heads, .kv_heads = heads, .seqlen_kv = 300, .dim = 16}, DType::bf16,
                    Order::bhsd, Device::sim());
    attention(Stream(Device::sim()), t.Q, t.K, t.V, t.O, t.Lse);
  };
  run(8);
  EXPECT_TRUE(meets_in_memory(attention));
  run(67);
  EXPECT_FALSE(meets_in_memory(attention));
  EXPECT_EQ(splits_of(attention), 8);
}

/// The numbers of clusters and rows are not part of a kernel's key.
TEST(SplitKeysOfSim, CompileOnceForAllNumbersOfClusters) {
  const Attention attention(AttentionSpec{});
  const auto compiled_by = [&](int seqlen_q, int seqlen_kv) {
    const Tensors t({.seqlen_q = seqlen_q, .seqlen_kv = seqlen_kv, .dim = 128}, DType::bf16,
                    Order::bhsd, Device::sim());
    attention(Stream(Device::sim()), t.Q, t.K, t.V, t.O, t.Lse);
    expect_attention({}, t);
    EXPECT_TRUE(meets_in_memory(attention));
    return times_compiled(attention);
  };
  const std::size_t once = compiled_by(3, 8192);
  EXPECT_EQ(compiled_by(3, 7301), once) << "fewer clusters";
  EXPECT_EQ(compiled_by(5, 8192), once) << "more rows";
}

/// The exchanged partial results have their maximum size.
TEST_P(SplitKeys, WideHeads) {
  const Attention attention({}, {.split_kv = 8});
  const Tensors t({.seqlen_kv = 300, .dim = 256, .head_dim_v = 256}, DType::bf16, Order::bhsd,
                  GetParam());
  attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
  expect_attention({}, t);
}

/// The caller may request a split that one program would not need; it is ignored if unsupported.
TEST_P(SplitKeys, AreTheCallersChoice) {
  const auto used = [&](const AttentionSchedule& schedule, int seqlen_q) {
    const Attention attention({}, schedule);
    const Tensors t({.heads = 2, .seqlen_q = seqlen_q, .seqlen_kv = 200}, DType::bf16, Order::bhsd,
                    GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    expect_attention({}, t);
    return splits_of(attention);
  };
  EXPECT_EQ(used({}, 1), 1);
  EXPECT_EQ(used({.split_kv = 8}, 1), 8);
  EXPECT_EQ(used({.split_kv = 2}, 3), 2);
  EXPECT_EQ(used({.split_kv = 2}, 70), 1);
}

}  // namespace
}  // namespace tegula::test::split_kv_test
