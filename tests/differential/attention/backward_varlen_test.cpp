// Attention's gradients of packed sequences against double precision, one sequence at a time.
#include "tests/differential/attention/packed_backward.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
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

/// Blocks that the heads of a sequence keep, by the block of queries and that of keys.
struct ListedBlocks {
  int heads, block_q, block_kv;
  std::function<bool(int b, int h, int m, int n)> is_kept;

  bool operator()(int b, int h, int q, int kv) const {
    return is_kept(b, heads == 1 ? 0 : h, q / block_q, kv / block_kv);
  }
  /// Returns the list of sequences of such lengths, in descending order of blocks. Rows that a
  /// sequence does not have, and entries beyond the counts, contain numbers that do not exist.
  BlockList list(const Lengths& l, BlockListRows of, Device device) const {
    constexpr int kSpare = 1;  // rows beyond those of the longest sequence
    const bool of_keys = of == BlockListRows::keys;
    const auto blocks_of = [](i32 length, int block) { return (length + block - 1) / block; };
    const auto most = [&](const std::vector<i32>& lengths, int block) {
      return blocks_of(*std::ranges::max_element(lengths), block);
    };
    const int queries = most(l.q, block_q), keys = most(l.kv, block_kv),
              rows = (of_keys ? keys : queries) + kSpare, columns = of_keys ? queries : keys;
    std::vector<i32> indices, counts, full;
    for (std::size_t b = 0; b < l.q.size(); ++b)
      for (int h = 0; h < heads; ++h)
        for (int row = 0; row < rows; ++row) {
          const int own = blocks_of(of_keys ? l.kv[b] : l.q[b], of_keys ? block_kv : block_q);
          std::vector<i32> whole, ragged;
          for (int i = blocks_of(of_keys ? l.q[b] : l.kv[b], of_keys ? block_q : block_kv); i--;) {
            const int m = of_keys ? i : row, n = of_keys ? row : i;
            if (!is_kept(static_cast<int>(b), h, m, n)) continue;
            const bool is_whole = (m + 1) * block_q <= l.q[b] && (n + 1) * block_kv <= l.kv[b];
            (is_whole ? whole : ragged).push_back(i);
          }
          counts.push_back(row < own ? static_cast<i32>(whole.size() + ragged.size()) : kNowhere);
          full.push_back(row < own ? static_cast<i32>(whole.size()) : kNowhere);
          whole.insert(whole.end(), ragged.begin(), ragged.end());
          whole.resize(static_cast<std::size_t>(columns), kNowhere);
          indices.insert(indices.end(), whole.begin(), whole.end());
        }
    const Dims shape{static_cast<std::int64_t>(l.q.size()), heads, rows};
    return {Tensor::from(indices, {shape[0], shape[1], shape[2], columns}, device),
            Tensor::from(counts, shape, device), Tensor::from(full, shape, device), block_q,
            block_kv};
  }

  static constexpr i32 kNowhere = std::numeric_limits<i32>::max();
};

HostAttention listed(const ListedBlocks& blocks, const std::function<bool(int, int)>& mask) {
  HostAttention host;
  host.mask = [=](int b, int h, int q, int kv) { return blocks(b, h, q, kv) && mask(q, kv); };
  return host;
}

/// Blocks of the sequences' own lists, which leave some sequences and rows without any; of 64 and
/// of 128 queries, of which a block may extend beyond the end of its sequence.
TEST_P(BackwardVarlen, ListsOfTheCaller) {
  const Lengths same{{150, 20, 0, 300, 64}, {150, 20, 0, 300, 64}},
      other{{70, 0, 130, 257}, {140, 40, 3, 0}};
  struct Case {
    Lengths lengths;
    ListedBlocks blocks;
    std::int64_t kv_heads, dim;
  };
  const auto some = [](int b, int h, int m, int n) { return b != 1 && (b + h + m + n) % 3 != 1; };
  const auto all = [](int, int, int, int) { return true; };
  const auto none = [](int, int, int, int) { return false; };
  for (const Case& k : {Case{same, {1, 64, 128, some}, 4, 16},
                        {same, {4, 128, 128, some}, 4, 16},
                        {same, {4, 64, 128, some}, 2, 16},
                        {same, {4, 128, 128, some}, 1, 136},
                        {other, {1, 128, 128, all}, 2, 32},
                        {other, {4, 64, 128, some}, 4, 32},
                        {same, {1, 64, 128, none}, 4, 16}}) {
    SCOPED_TRACE(testing::Message()
                 << k.blocks.heads << " " << k.blocks.block_q << " " << k.kv_heads << " " << k.dim);
    PackedBackward c(k.lengths, 4, k.kv_heads, k.dim, 16, GetParam());
    c.blocks = k.blocks.list(k.lengths, BlockListRows::keys, GetParam());
    c.run(Attention({.blocks = k.blocks.list(k.lengths, BlockListRows::queries, GetParam())}));
    c.expect(listed(k.blocks, [](int, int) { return true; }));
    if (HasFatalFailure()) return;
  }
}

/// A list of the blocks that a mask keeps gives the same gradients as the mask alone, whether the
/// specification has the list or the backward call alone.
TEST_P(BackwardVarlen, ListsOfAMask) {
  const Lengths l{{150, 20, 0, 200}, {150, 20, 0, 200}};
  const ListedBlocks blocks{2, 64, 128, [](int, int h, int m, int n) {
                              return 64 * m + 63 >= 128 * n && (n + h) % 2 == 0;
                            }};
  const Mask mask = [](Tile, Tile h, Tile q, Tile kv) {
    return q >= kv && (kv / 128 + h) % 2 == 0;
  };
  // No block is marked as whole, so that the mask is evaluated in all of them.
  const auto list_of = [&](BlockListRows rows) {
    BlockList list = blocks.list(l, rows, GetParam());
    list.full_kv_num_blocks = {};
    return list;
  };
  PackedBackward c(l, 2, 1, 32, 32, GetParam());
  std::vector<std::vector<double>> gradients;
  for (const bool has_list : {false, true})
    for (const bool is_specified : {false, true}) {
      if (is_specified && !has_list) continue;
      AttentionSpec spec{.mask = mask};
      if (is_specified) spec.blocks = list_of(BlockListRows::queries);
      c.blocks = has_list ? std::optional(list_of(BlockListRows::keys)) : std::nullopt;
      c.run(Attention(spec));
      c.expect(listed(blocks, [](int q, int kv) { return q >= kv; }));
      if (HasFatalFailure()) return;
      gradients.push_back(c.dK.to_doubles());
    }
  // The launch for dQ then visits the blocks that the mask gives.
  c.run(Attention({.mask = mask}, {}, {.deterministic = true}));
  c.expect(listed(blocks, [](int q, int kv) { return q >= kv; }));
  const std::size_t rows = 370 * 32;
  for (const auto& got : gradients)
    for (std::size_t i = 0; i < rows; ++i)
      ASSERT_NEAR(got[i], gradients[0][i], 1e-2 * std::abs(gradients[0][i]) + 1e-3) << i;
}

/// A block that extends beyond the end of its sequence does not reach the next one, and a list that
/// all sequences share may have blocks that the shorter ones lack.
TEST_P(BackwardVarlen, ListsAndOtherSequencesThatAreNotFinite) {
  const Lengths l{{40, 60, 300}, {40, 60, 300}};
  const ListedBlocks blocks{1, 128, 128, [](int, int, int m, int n) { return m >= n; }};
  PackedBackward c(l, 2, 2, 16, 16, GetParam());
  BlockList shared = blocks.list({{300}, {300}}, BlockListRows::keys, GetParam());
  shared.full_kv_num_blocks = {};
  c.blocks = shared;
  const Tensors& t = c.packed.all;
  const Attention attention({.mask = masks::causal()});
  c.run(attention);
  const auto dQ = c.dQ.to_doubles(), dK = c.dK.to_doubles();
  for (const Tensor& x : {t.Q, c.dO, t.O, t.K, t.V}) x.slice(0, 40, 100).fill(NAN);
  c.run_backward(attention);
  for (const auto& [got, want] : {std::pair{c.dQ.to_doubles(), dQ}, {c.dK.to_doubles(), dK}})
    for (std::size_t row = 0; row < 400; ++row)
      for (std::size_t i = row * 32; i < row * 32 + 32; ++i) {
        if (row >= 40 && row < 100) continue;
        ASSERT_NEAR(got[i], want[i], 1e-2 * std::abs(want[i]) + 1e-3) << row;
      }
  for (const Tensor& x : {t.Q, c.dO, t.K, t.V}) x.slice(0, 40, 100).fill(0.5);
  c.run(attention);
  c.expect(causal());
}

TEST_P(BackwardVarlen, ListsThatDoNotFit) {
  const Lengths l{{140, 24}, {140, 24}};
  PackedBackward c(l, 2, 1, 16, 16, GetParam());
  c.packed.lengths.kv = c.packed.lengths.q;  // the longest sequence of keys is known
  const Tensors& t = c.packed.all;
  const Attention attention({.mask = masks::causal()});
  attention.varlen(Stream(GetParam()), t.Q, t.K, t.V, t.O, c.packed.lengths, {.lse = t.Lse});
  const ListedBlocks blocks{1, 64, 128, [](int, int, int, int) { return true; }};
  BlockList good = blocks.list(l, BlockListRows::keys, GetParam());
  good.full_kv_num_blocks = {};
  const auto expect_refused = [&](const BlockList& list, const char* code) {
    try {
      c.blocks = list;
      c.run_backward(attention);
      ADD_FAILURE() << "no error: " << code;
    } catch (const CompileError& e) {
      EXPECT_EQ(e.diagnostic().code, code) << e.what();
    }
  };
  const auto changed = [&](const std::function<void(BlockList&)>& change) {
    BlockList list = good;
    change(list);
    return list;
  };
  expect_refused(changed([](BlockList& x) { x.block_q = 16; }), "T1662");
  expect_refused(changed([](BlockList& x) { x.block_kv = 64; }), "T1662");
  expect_refused(changed([](BlockList& x) { x.kv_indices = {}; }), "T1620");
  expect_refused(changed([&](BlockList& x) { x.kv_num_blocks = t.Lse; }), "T1620");
  // Rows for one block of keys; the longest sequence has two.
  expect_refused(changed([](BlockList& x) { x.kv_indices = x.kv_indices.slice(2, 0, 1); }),
                 "T1621");
  expect_refused(
      changed([](BlockList& x) { x.kv_num_blocks = x.kv_num_blocks.broadcast_to({2, 3, 3}); }),
      "T1621");
  try {
    c.blocks = std::nullopt;
    c.run_backward(Attention({.blocks = blocks.list(l, BlockListRows::queries, GetParam())}));
    ADD_FAILURE() << "no error";
  } catch (const CompileError& e) {
    EXPECT_EQ(e.diagnostic().code, "T1662") << e.what();
  }
  c.blocks = good;  // usable after the errors
  c.run(attention);
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
  expect_refused(c.packed.lengths, {.O = t.O, .lse = t.Lse, .blocks = BlockList()}, "T1620",
                 "kv_indices");
}

}  // namespace
}  // namespace tegula::test::backward_varlen_test
