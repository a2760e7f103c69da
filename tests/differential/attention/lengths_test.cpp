// Lengths that fill no tile, or one and a bit, under masks and with groups of heads.
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::lengths_test {
using namespace kernels;
namespace {

class Lengths : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Lengths, testing::ValuesIn(devices()), device_name);

struct Shape {
  int q, kv;
};

struct Case {
  const char* name;
  AttentionSpec spec;
  std::function<HostAttention(Shape)> host;
  Scalar<i32> seqlen_q = 1, seqlen_kv = 1;
};

std::vector<Case> cases() {
  const auto host = [](auto mask) {
    return [mask](Shape s) {
      HostAttention h;
      h.mask = [mask, s](int, int, int q, int kv) { return mask(s, q, kv); };
      return h;
    };
  };
  std::vector<Case> list{
      {"full", {}, host([](Shape, int, int) { return true; })},
      {"causal", {.mask = masks::causal()}, host([](Shape, int q, int kv) { return q >= kv; })},
      {"window", {.mask = masks::window(50, 20)}, host([](Shape, int q, int kv) {
         return q - kv <= 50 && kv - q <= 20;
       })}};
  Case last{"causal from the last key", {}, host([](Shape s, int q, int kv) {
              return q + s.kv - s.q >= kv;
            })};
  last.spec.mask = masks::causal_bottom_right(last.seqlen_q, last.seqlen_kv);
  list.push_back(last);
  return list;
}

void check(const std::vector<Shape>& shapes, Device device) {
  for (Case& c : cases()) {
    const Attention attention(c.spec);
    for (const Shape s : shapes)
      for (const int group : {1, 4, 7}) {
        SCOPED_TRACE(testing::Message() << c.name << " " << s.q << " " << s.kv << " by " << group);
        c.seqlen_q = s.q;
        c.seqlen_kv = s.kv;
        const bool odd = group == 4;
        const Tensors t({.heads = group, .seqlen_q = s.q, .seqlen_kv = s.kv},
                        odd ? DType::f16 : DType::bf16, odd ? Order::bshd : Order::bhsd, device);
        attention(Stream(device), t.Q, t.K, t.V, t.O, t.Lse);
        expect_attention(c.host(s), t);
        if (testing::Test::HasFatalFailure()) return;
      }
  }
}

TEST_P(Lengths, Small) {
  check({{1, 1}, {1, 239}, {113, 203}, {128, 217}, {108, 256}, {217, 128}}, GetParam());
}

TEST_P(Lengths, Larger) {
  if (GetParam().kind == DeviceKind::cuda)
    check({{256, 512}, {1023, 1024}, {1024, 1023}, {2048, 2048}, {4097, 513}}, GetParam());
  else
    check({{256, 512}}, GetParam());
}

/// Enough keys for wide blocks, whose last one is ragged.
TEST_P(Lengths, ManyKeys) {
  AttentionSpec at_end{.mask = masks::causal()};
  at_end.align_bottom_right = true;
  static constexpr Shape kShape{40, 4101};
  for (const int dim : {64, 128})
    for (const AttentionSpec& spec : {AttentionSpec{}, at_end}) {
      SCOPED_TRACE(testing::Message() << dim << (spec.mask ? " causal" : ""));
      const Attention attention(spec);
      const Tensors t({.seqlen_q = kShape.q, .seqlen_kv = kShape.kv, .dim = dim, .head_dim_v = dim},
                      DType::bf16, Order::bhsd, GetParam());
      attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
      HostAttention host;
      if (spec.mask)
        host.mask = [](int, int, int q, int kv) { return q + kShape.kv - kShape.q >= kv; };
      expect_attention(host, t);
    }
}

/// Long enough for many rounds of a ring; of one case each, as the host is slow.
TEST_P(Lengths, ManySteps) {
  const Attention causal({.mask = masks::causal()});
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  for (const Shape s : {Shape{1023, 1024}, {1024, 1023}, {2048, 2048}, {4097, 513}}) {
    const Tensors t({.seqlen_q = s.q, .seqlen_kv = s.kv}, DType::bf16, Order::bhsd, GetParam());
    causal(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    expect_attention(host, t);
    if (HasFatalFailure()) return;
  }
}

/// Many tiles a program, some of which see no key: each is stored beside the next one's begin,
/// where that may be.
TEST_P(Lengths, TilesOverlap) {
  const bool has_plan = GetParam().kind != DeviceKind::cpu;
  AttentionSpec given{.mask = masks::window(50, 20)};
  given.kv_range = [](const Tile&, const Tile&, const Tile& keys) {
    return KvRange{full<i32>(0), keys};
  };
  for (const auto& [spec, kv, overlaps] :
       {std::tuple{AttentionSpec{.mask = masks::window(50, 20)}, 90, true},
        {AttentionSpec{.mask = masks::window(50, 20)}, 0, false},
        {given, 90, false}}) {
    SCOPED_TRACE(testing::Message() << kv << " keys, overlap " << overlaps);
    const Attention attention(spec);
    const Tensors t({.heads = 3, .seqlen_q = 700, .seqlen_kv = kv, .dim = 64, .head_dim_v = 64},
                    DType::bf16, Order::bhsd, GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    HostAttention host;
    host.mask = [](int, int, int q, int key) { return q - key <= 50 && key - q <= 20; };
    expect_attention(host, t);
    EXPECT_EQ(attention.explain().find("overlap_epilogue=1") != std::string::npos,
              has_plan && overlaps)
        << attention.explain();
  }
}

/// Without a mask two programs share keys and values: even and odd numbers of tiles, so that the
/// last has no neighbour, and neighbours of two heads, which share nothing.
TEST_P(Lengths, NeighboursShareKeys) {
  const Attention full{AttentionSpec{}};
  for (const auto& [heads, q] : {std::pair{1, 600}, {3, 300}, {2, 512}, {1, 100}})
    for (const int dim : {64, 128}) {
      SCOPED_TRACE(testing::Message() << heads << " heads, " << q << " queries, dim " << dim);
      const Tensors t({.heads = heads,
                       .kv_heads = heads,
                       .seqlen_q = q,
                       .seqlen_kv = 500,
                       .dim = dim,
                       .head_dim_v = dim},
                      DType::bf16, Order::bhsd, GetParam());
      full(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
      expect_attention({}, t);
      const std::string said = full.explain();
      EXPECT_EQ(said.find("shared=1") != std::string::npos, GetParam().kind != DeviceKind::cpu)
          << said;
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace tegula::test::lengths_test
