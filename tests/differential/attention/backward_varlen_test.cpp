// Attention's gradients of packed sequences against double precision, one sequence at a time.
#include "tests/differential/attention/packed_backward.h"

#include <string>

#include "tegula/kernels/masks.h"

namespace tegula::test::backward_varlen_test {
using namespace kernels;
namespace {

class BackwardVarlen : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, BackwardVarlen, testing::ValuesIn(devices()), device_name);

HostAttention causal() {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  return host;
}

TEST_P(BackwardVarlen, LengthsAndGroups) {
  struct Case {
    Lengths lengths;
    std::int64_t kv_heads;
    bool is_causal;
  };
  const Lengths same{{70, 1, 0, 130, 64}, {70, 1, 0, 130, 64}},
      other{{5, 0, 100, 30}, {140, 40, 3, 0}};
  for (const Case& k : {Case{same, 1, true}, {other, 4, false}, {other, 2, true}}) {
    SCOPED_TRACE(k.kv_heads);
    const PackedBackward c(k.lengths, 4, k.kv_heads, 32, 24, GetParam());
    c.run(Attention({.mask = k.is_causal ? masks::causal() : Mask()}));
    c.expect(k.is_causal ? causal() : HostAttention());
    if (HasFatalFailure()) return;
  }
}

/// Nothing of another sequence reaches the gradients of one, even if it is not finite.
TEST_P(BackwardVarlen, OtherSequencesThatAreNotFinite) {
  const Lengths l{{40, 30, 50}, {150, 20, 50}};
  const PackedBackward c(l, 2, 1, 32, 32, GetParam());
  const Attention attention({.mask = masks::causal()});
  const Tensors& t = c.packed.all;
  c.run(attention);
  const auto dQ = c.dQ.to_doubles(), dK = c.dK.to_doubles(), dV = c.dV.to_doubles();
  for (const Tensor& x : {t.Q, c.dO, t.O}) x.slice(0, 40, 70).fill(NAN);
  for (const Tensor& x : {t.K, t.V}) x.slice(0, 150, 170).fill(NAN);
  attention.varlen_backward(Stream(GetParam()), t.Q, t.K, t.V, c.packed.lengths,
                            {.O = t.O, .lse = t.Lse}, {.O = c.dO},
                            {.Q = c.dQ, .K = c.dK, .V = c.dV});
  const auto expect_kept = [](const Tensor& out, const std::vector<double>& before,
                              std::size_t first, std::size_t end) {
    const auto got = out.to_doubles();
    const std::size_t row = got.size() / static_cast<std::size_t>(out.size(0));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool is_other = i >= first * row && i < end * row;
      if (is_other || std::isnan(before[i])) continue;
      ASSERT_NEAR(got[i], before[i], 1e-2 * std::abs(before[i]) + 1e-3) << i;
    }
  };
  expect_kept(c.dQ, dQ, 40, 70), expect_kept(c.dK, dK, 150, 170), expect_kept(c.dV, dV, 150, 170);
}

/// Lengths are data: calls with other ones reuse a plan.
TEST_P(BackwardVarlen, OtherLengths) {
  const Attention attention({.mask = masks::causal()});
  for (const Lengths& l :
       {Lengths{{100, 30}, {100, 30}}, Lengths{{0, 130}, {0, 130}}, Lengths{{5, 60}, {65, 65}}}) {
    PackedBackward c(l, 1, 1, 16, 16, GetParam());
    c.packed.lengths.max_seqlen_q = 130;
    c.run(attention);
    c.expect(causal());
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardVarlen, SinksAndGradientOfLse) {
  PackedBackward c({{70, 0, 33}, {90, 20, 33}}, 2, 1, 32, 32, GetParam(), DType::f16);
  c.with_sinks();
  c.run(Attention({.mask = masks::causal()}));
  c.expect(causal());
}

TEST_P(BackwardVarlen, ListsOfTheCallerAreRefused) {
  const PackedBackward c({{40, 24}, {40, 24}}, 1, 1, 16, 16, GetParam());
  const Tensors& t = c.packed.all;
  const Stream stream(GetParam());
  const Attention attention({.mask = masks::causal()});
  const Tensor Q = dense_rows(t.Q, 0, 64), K = dense_rows(t.K, 0, 64);
  const BlockList by_queries = attention.block_list(stream, Q, K),
                  by_keys = attention.block_list(stream, Q, K, BlockListRows::keys);
  for (const Attention& a : {attention, Attention({.blocks = by_queries})}) {
    try {
      a.varlen_backward(stream, t.Q, t.K, t.V, c.packed.lengths,
                        {.O = t.O, .lse = t.Lse, .blocks = by_keys}, {.O = c.dO}, {.Q = c.dQ});
      ADD_FAILURE() << "no error";
    } catch (const CompileError& e) {
      EXPECT_EQ(e.diagnostic().code, "T1662") << e.what();
      EXPECT_NE(std::string(e.what()).find("none for packed sequences"), std::string::npos);
    }
  }
  c.run(attention);  // usable after the error
  c.expect(causal());
}

TEST_P(BackwardVarlen, AlignedBottomRightWithAScore) {
  const Lengths l{{40, 64, 1}, {100, 64, 129}};
  PackedBackward c(l, 2, 1, 16, 16, GetParam());
  c.dO = Tensor::full({1, 1, 1}, 1, DType::bf16, GetParam()).broadcast_to(c.dO.shape());
  c.run(Attention({.mask = masks::causal(),
                   .score = [](const Tile& s, const Tile&, const Tile&, const Tile& q,
                               const Tile& kv) { return s + cast<f32>(kv - q) * 0.1f; },
                   .align_bottom_right = true}));
  HostAttention host;
  // Terms that all keys of a query share do not matter, so the shift of the score does not either.
  host.score = [](double s, int, int, int q, int kv) { return s + 0.1 * (kv - q); };
  host.mask = [l](int b, int, int q, int kv) {
    const auto i = static_cast<std::size_t>(b);
    return q + l.kv[i] - l.q[i] >= kv;
  };
  c.expect(host);
}

/// A table of each head's blocks has to be evaluated; the lists of a group are merged.
TEST_P(BackwardVarlen, Lists) {
  constexpr int kBlocks = 5;
  const Tensor table = Tensor::integers({4, kBlocks, kBlocks}, DType::i32, 0, 2, 5, GetParam());
  const auto kept = table.to_doubles();
  for (const auto& [kv_heads, dim] : {std::pair{4, 16}, {2, 136}}) {
    SCOPED_TRACE(kv_heads);
    const PackedBackward c({{150, 20, 0, 70}, {140, 20, 10, 80}}, 4, kv_heads, dim, 16, GetParam());
    c.run(Attention({.mask = [=](Tile, Tile h, Tile q, Tile kv) {
      return fill_absent(view<i32, 3>(table)(h, q / 64, kv / 64), 0) != 0;
    }}));
    HostAttention host;
    host.mask = [=](int, int h, int q, int kv) {
      return kept[static_cast<std::size_t>((h * kBlocks + q / 64) * kBlocks + kv / 64)] != 0;
    };
    c.expect(host);
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardVarlen, WithoutSequencesOrRows) {
  for (const Lengths& l : {Lengths{{}, {}}, Lengths{{0, 0}, {0, 0}}, Lengths{{0, 0}, {70, 5}},
                           Lengths{{70, 5}, {0, 0}}}) {
    SCOPED_TRACE(testing::Message() << l.q.size());
    PackedBackward c(l, 2, 1, 32, 32, GetParam());
    c.with_sinks();
    c.run(Attention({.mask = masks::causal()}));
    c.expect(causal());
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardVarlen, Errors) {
  const PackedBackward c({{20}, {20}}, 1, 1, 32, 32, GetParam());
  const Tensors& t = c.packed.all;
  const Attention attention({.mask = masks::causal()});
  const auto expect_refused = [&](const CuSeqlens& lengths, const AttentionSaved& saved,
                                  const char* code, const char* text) {
    try {
      attention.varlen_backward(Stream(GetParam()), t.Q, t.K, t.V, lengths, saved, {c.dO, {}},
                                {c.dQ, c.dK, c.dV, {}});
      ADD_FAILURE() << "no error: " << text;
    } catch (const CompileError& e) {
      EXPECT_NE(std::string(e.what()).find(code), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("backward_varlen_test.cpp"), std::string::npos);
    }
  };
  expect_refused({}, {.O = t.O, .lse = t.Lse}, "T1607", "cu_seqlens");
  expect_refused(c.packed.lengths, {.O = t.O}, "T1662", "lse");
  expect_refused(c.packed.lengths, {.O = t.O, .lse = t.Lse, .blocks = BlockList()}, "T1662",
                 "saved.blocks");
}

}  // namespace
}  // namespace tegula::test::backward_varlen_test
