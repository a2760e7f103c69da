// Attention with block lists: given by the host, BigBird, or chosen by a router; and with trees of
// tokens.
#include "tegula/kernels/block_patterns.h"

#include <set>

#include "tegula/kernels/masks.h"
#include "tests/differential/attention_expected.h"

namespace tegula::block_patterns_test {
using namespace kernels;
namespace {

using test::AttentionInputs;
using test::expect_near;

class BlockPatterns : public ::testing::TestWithParam<Device> {
 protected:
  static Device device() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Devices, BlockPatterns, ::testing::ValuesIn(test::devices()),
                         test::device_name);

/// Rows of a list by (batch * heads + head) * tiles + tile: all blocks, and those without a mask.
struct Rows {
  std::vector<std::set<int>> blocks, whole;
  std::int64_t heads, tiles;
  bool has(std::int64_t b, std::int64_t h, std::int64_t m, std::int64_t n) const {
    return blocks[static_cast<std::size_t>((b * heads + h) * tiles + m)].count(
               static_cast<int>(n)) != 0;
  }
};
Rows rows_of(const BlockList& l) {
  const auto blocks = l.kv_indices.to_vector<i32>(), counts = l.kv_num_blocks.to_vector<i32>(),
             full = l.full_kv_num_blocks.to_vector<i32>();
  const auto capacity = static_cast<std::size_t>(l.kv_indices.size(3));
  Rows rows{{}, {}, l.kv_indices.size(1), l.kv_indices.size(2)};
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const i32* first = blocks.data() + r * capacity;
    rows.blocks.emplace_back(first, first + counts[r]);
    rows.whole.emplace_back(first, first + full[r]);
    EXPECT_EQ(rows.blocks.back().size(), static_cast<std::size_t>(counts[r])) << "twice the same";
  }
  return rows;
}

TEST_P(BlockPatterns, TheHost) {
  const AttentionInputs in({1, 2}, 1, 300, 420, 16, device());
  const auto use = [](auto, auto h, auto m, auto n) {
    return (m + n + h) % 2 ? BlockCoverage::empty
           : n == m + h    ? BlockCoverage::partial
                           : BlockCoverage::full;
  };
  const BlockList list =
      list_blocks({.seqlen_q = 300, .seqlen_kv = 420, .heads = 2, .block_q = 64, .block_kv = 80},
                  use, device());
  const auto mask = [](const Tile&, const Tile&, const Tile& q, const Tile& kv) {
    return q + 40 >= kv;
  };
  expect_near(in.run(attention({.mask = mask, .blocks = list})),
              in.expected([&](auto b, auto h, auto q, auto kv) {
                const BlockCoverage is = use(b, h, q / 64, kv / 80);
                // The last block is not full, so a block without a mask gets one there.
                const bool is_masked = is == BlockCoverage::partial || kv >= 400;
                return is != BlockCoverage::empty && (!is_masked || q + 40 >= kv);
              }));
}

TEST_P(BlockPatterns, BigBirdHasItsThreeKinds) {
  const BlockMaskShape grid{
      .seqlen_q = 700, .seqlen_kv = 700, .heads = 2, .block_q = 64, .block_kv = 64};
  for (const bool is_causal : {false, true}) {
    const BigBird pattern{.global = 1, .window = 1, .random = 2, .is_causal = is_causal, .seed = 5};
    const BlockList list = big_bird(grid, pattern, device());
    const Rows rows = rows_of(list);
    for (int h = 0; h < 2; ++h)
      for (int m = 0; m < 11; ++m) {
        const auto& row = rows.blocks[static_cast<std::size_t>(h * 11 + m)];
        const int end = is_causal ? m + 1 : 11;
        int others = 0, chosen = 0;
        for (int n = 0; n < 11; ++n) {
          const bool is_seen = row.count(n) != 0;
          EXPECT_FALSE(is_seen && n >= end) << m << " " << n;
          const bool is_fixed = m == 0 || n == 0 || std::abs(m - n) <= 1;
          EXPECT_TRUE(is_seen || !is_fixed || n >= end) << m << " " << n;
          others += !is_fixed && n < end;
          chosen += !is_fixed && is_seen;
        }
        EXPECT_EQ(chosen, std::min(others, 2)) << m;
      }
    EXPECT_NE(std::vector(rows.blocks.begin(), rows.blocks.begin() + 11),
              std::vector(rows.blocks.begin() + 11, rows.blocks.end()));
    EXPECT_EQ(rows_of(big_bird(grid, pattern, device())).blocks, rows.blocks);
    AttentionSpec spec{.blocks = list};
    if (is_causal) spec.mask = masks::causal();
    const AttentionInputs in({1, 2}, 1, 700, 700, 16, device());
    expect_near(in.run(attention(spec)), in.expected([&](auto b, auto h, auto q, auto kv) {
      return rows.has(b, h, q / 64, kv / 64) && (!is_causal || q >= kv);
    }));
  }
}

/// A router's choice of 5 blocks, out of order, with invalid entries.
const std::vector<i32> kChoice{3, -1, 0, 99, -1, 4, 1, 0, -7, 3, 2, 0, 4, 1, 3, -1, 6, -1, -1, 7};

TEST_P(BlockPatterns, ARouter) {
  const BlockMaskShape grid{.seqlen_q = 250, .seqlen_kv = 300, .block_q = 64, .block_kv = 64};
  const AttentionInputs in({2, 2}, 1, 250, 300, 16, device());
  const auto odd = [](const Tile&, const Tile&, const Tile& q, const Tile& kv) {
    return (q + kv) % 3 != 0;
  };
  const auto chosen = [](std::int64_t q, std::int64_t kv) {
    const auto* row = kChoice.data() + q / 64 * 5;
    return std::find(row, row + 5, static_cast<i32>(kv / 64)) != row + 5;
  };
  const BlockList list = empty_block_list(grid, 6, device());
  const Tensor indices = Tensor::from(kChoice, {1, 1, 4, 5}, device());
  const Attention plain = attention({.blocks = list});
  const auto select = [&](BlockInterior within) {
    select_blocks(Stream(device()), indices, 300, within, list);
    return rows_of(list);
  };
  // One list, filled three times; the first attention object is made before the list.
  const Rows all = select(BlockInterior::full);
  EXPECT_EQ(all.blocks[0], (std::set<int>{0, 3}));
  EXPECT_EQ(all.whole[1], (std::set<int>{0, 1, 3})) << "44 keys of block 4 exist";
  EXPECT_EQ(all.blocks[3], std::set<int>{});
  expect_near(in.run(plain),
              in.expected([&](auto, auto, auto q, auto kv) { return chosen(q, kv); }));
  const Rows causal = select(BlockInterior::causal);
  EXPECT_EQ(causal.whole[2], (std::set<int>{0, 1}));
  EXPECT_EQ(causal.blocks[2], (std::set<int>{0, 1, 2}));
  expect_near(in.run(attention({.mask = masks::causal(), .blocks = list})),
              in.expected([&](auto, auto, auto q, auto kv) { return q >= kv && chosen(q, kv); }));
  EXPECT_EQ(select(BlockInterior::partial).whole[2], std::set<int>{});
  expect_near(
      in.run(attention({.mask = odd, .blocks = list})),
      in.expected([&](auto, auto, auto q, auto kv) { return (q + kv) % 3 && chosen(q, kv); }));
}

/// More choices than a program reads at once.
TEST_P(BlockPatterns, ARouterWithManyChoices) {
  const BlockList list = empty_block_list(
      {.seqlen_q = 20, .seqlen_kv = 16 * 400, .block_q = 16, .block_kv = 16}, 300, device());
  std::vector<i32> choice;
  for (int i = 0; i < 600; ++i) choice.push_back(i % 300 * 7 % 401 - 1);
  select_blocks(Stream(device()), Tensor::from(choice, {1, 1, 2, 300}, device()), 16 * 400 - 3,
                BlockInterior::full, list);
  const Rows rows = rows_of(list);
  std::set<int> want(choice.begin(), choice.begin() + 300);
  want.erase(-1);
  EXPECT_EQ(rows.blocks[1], want);
  want.erase(399);
  EXPECT_EQ(rows.whole[1], want);
}

TEST_P(BlockPatterns, TreesOfEachBatchEntry) {
  constexpr int kPrefix = 170, kNodes = 40;
  std::vector<std::vector<int>> parents(2);
  for (int i = 0; i < kNodes; ++i) parents[0].push_back(i / 3 - 1 + (i % 3 == 2 && i > 2));
  for (int i = 0; i < 33; ++i) parents[1].push_back(i - 1);
  const auto is_ancestor = [&](std::int64_t b, std::int64_t node, std::int64_t of) {
    const auto& tree = parents[static_cast<std::size_t>(b)];
    if (node >= static_cast<std::int64_t>(tree.size())) return false;
    while (node > of) node = tree[static_cast<std::size_t>(node)];
    return node == of;
  };
  const AttentionInputs in({2, 2}, 1, kNodes, kPrefix + kNodes, 64, device());
  const Attention a = attention(
      {.mask = masks::tree(kPrefix, masks::ancestor_bits(parents, kNodes, device()), kNodes),
       .align_bottom_right = true});
  expect_near(in.run(a), in.expected([&](auto b, auto, auto q, auto kv) {
    return kv < kPrefix || is_ancestor(b, q, kv - kPrefix);
  }));
}

TEST(BlockPattern, RejectsTensorsThatDoNotFit) {
  const Device cpu = Device::cpu();
  const auto message = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const CompileError& e) {
      return std::string(e.what());
    }
    return std::string("nothing is refused");
  };
  const auto expect = [&](const std::function<void()>& call, const char* text) {
    EXPECT_NE(message(call).find(text), std::string::npos) << message(call);
  };
  const BlockMaskShape grid{.seqlen_q = 256, .seqlen_kv = 256};
  const BlockMaskShape uneven{.seqlen_q = 256, .seqlen_kv = 256, .block_q = 64},
      odd{256, 256, 1, 1, 100, 100};
  expect([&] { big_bird(uneven, {}, cpu); }, "big_bird: blocks of 64 x 128");
  expect([&] { big_bird(odd, {}, cpu); }, "blocks of a BlockList are 100 x 100");
  expect([&] { big_bird({.seqlen_kv = 256}, {}, cpu); }, "a block list of 0 queries, 256 keys");
  expect([&] { empty_block_list(grid, 0, cpu); }, "room for 0 blocks");
  const BlockList list = empty_block_list(grid, 2, cpu);
  const auto choose = [&](const Dims& shape, DType d) {
    select_blocks(Stream(cpu), Tensor::zeros(shape, d, cpu), 256, BlockInterior::full, list);
  };
  expect([&] { choose({1, 1, 2, 3}, DType::i32); }, "select_blocks: indices are i32[1, 1, 2, 3]");
  expect([&] { choose({1, 1, 2, 2}, DType::i64); }, "select_blocks: indices are i64[1, 1, 2, 2]");
  expect([&] { masks::ancestor_bits({{-1, 1}}, 2, cpu); }, "node 1 of tree 0 has parent 1");
  expect([&] { masks::ancestor_bits({{-1, 0, 0}}, 2, cpu); }, "tree 0 has 3 nodes");
  const Tensor bits = masks::ancestor_bits({{-1, 0, 0}}, 3, cpu);
  expect([&] { masks::tree(5, bits, 2); }, "tree: ancestors are i32[3]");
  expect([&] { masks::tree(5, bits, 2000); }, "tree: 2000 nodes");
}

}  // namespace
}  // namespace tegula::block_patterns_test
