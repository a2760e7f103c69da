// Attention over block lists of the caller: what the lists say is visited, in their order, and
// nothing else.
#include "tegula/kernels/masks.h"
#include "tests/differential/attention_expected.h"

namespace tegula::block_list_test {
using namespace kernels;
namespace {

using test::AttentionInputs;
using test::expect_near;

constexpr std::int64_t kQueries = 300, kKeys = 420;  // 3 tiles of queries, 4 blocks of keys

class BlockLists : public ::testing::TestWithParam<Device> {
 protected:
  static Device device() { return GetParam(); }
  static Tensor integers(const std::vector<i32>& values, const Dims& shape) {
    return Tensor::from(values, shape, device());
  }
  static AttentionInputs inputs(const Dims& heads = {1, 1}, std::int64_t dim = 64) {
    return {heads, 1, kQueries, kKeys, dim, device()};
  }
  /// A list of one batch entry and head.
  static BlockList list() {
    return {integers({2, 0, 9, 9, 9, 9, 9, 9, 0, 1, 3, 2}, {1, 1, 3, 4}),
            integers({2, 0, 4}, {1, 1, 3}), integers({1, 0, 2}, {1, 1, 3})};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, BlockLists, ::testing::ValuesIn(test::devices()),
                         test::device_name);

/// Pairs that `list` and the mask q + 200 >= kv let through: the mask is computed only in blocks
/// that are not full.
bool sees_by_list(std::int64_t q, std::int64_t kv) {
  const bool mask = q + 200 >= kv;
  if (q < 128) return kv / 128 == 2 || (kv / 128 == 0 && mask);
  return q >= 256 && (kv < 256 || mask);
}
Tile ahead(const Tile&, const Tile&, const Tile& q, const Tile& kv) { return q + 200 >= kv; }

TEST_P(BlockLists, VisitTheirBlocks) {
  for (const std::int64_t dim : {64, 128}) {
    const AttentionInputs in = inputs({1, 1}, dim);
    const Attention listed = attention({.mask = ahead, .blocks = list()});
    expect_near(in.run(listed),
                in.expected([](auto, auto, auto q, auto kv) { return sees_by_list(q, kv); }));
    if (device().kind == DeviceKind::cpu) continue;
    const std::string text = listed.explain();
    EXPECT_NE(text.find("dot by wgmma"), std::string::npos) << text;
    EXPECT_NE(text.find("overlapped=1"), std::string::npos) << text;
    // Producer warps read the entries: their threads come on top of the consumers'.
    EXPECT_NE(text.find("threads 384"), std::string::npos) << text;
    EXPECT_NE(listed.dump("optimize").find("names = \"consumer,producer\""), std::string::npos);
  }
}

TEST_P(BlockLists, EachHeadAndBatchEntry) {
  const AttentionInputs in = inputs({2, 2}, 16);
  std::vector<i32> blocks, counts;
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 2; ++h)
      for (int m = 0; m < 3; ++m) {
        blocks.insert(blocks.end(), {2 * b + h, (2 * b + h + m + 1) % 4});
        counts.push_back(m == 1 ? 1 : 2);
      }
  const BlockList each{integers(blocks, {2, 2, 3, 2}), integers(counts, {2, 2, 3})};
  const auto block = [](auto b, auto h, auto q, auto kv) {
    const auto m = q / 128, n = kv / 128;
    return n == 2 * b + h || (m != 1 && n == (2 * b + h + m + 1) % 4);
  };
  expect_near(in.run(attention({.blocks = each})), in.expected(block));
  const auto of_both = [&](auto, auto h, auto q, auto kv) { return block(0, h, q, kv); };
  const BlockList once{integers({blocks.begin(), blocks.begin() + 12}, {1, 2, 3, 2}),
                       integers({counts.begin(), counts.begin() + 6}, {1, 2, 3})};
  expect_near(in.run(attention({.blocks = once})), in.expected(of_both));
}

TEST_P(BlockLists, OtherTiles) {
  const AttentionInputs in = inputs();
  std::vector<i32> blocks;
  for (int m = 0; m < 5; ++m) blocks.insert(blocks.end(), {m, 5 - m});
  BlockList small{integers(blocks, {1, 1, 5, 2}), integers({2, 2, 2, 2, 2}, {1, 1, 5})};
  small.block_q = 64;
  small.block_kv = 80;
  expect_near(in.run(attention({.blocks = small})), in.expected([](auto, auto, auto q, auto kv) {
    return kv / 80 == q / 64 || kv / 80 == 5 - q / 64;
  }));
}

TEST_P(BlockLists, NewContentsCompileNothing) {
  const AttentionInputs in = inputs({1, 1}, 16);
  const BlockList l = list();
  const Attention listed = attention({.mask = ahead, .blocks = l});
  in.run(listed);
  l.kv_num_blocks.copy_from(integers({1, 1, 1}, {1, 1, 3}));
  l.full_kv_num_blocks.copy_from(integers({1, 1, 1}, {1, 1, 3}));
  l.kv_indices.copy_from(integers({1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 3, 4}));
  expect_near(in.run(listed), in.expected([](auto, auto, auto q, auto kv) {
    return kv / 128 == (q / 128 + 1) % 3;
  }));
  EXPECT_EQ(listed.explain().find("compiled: first call"), 0u) << listed.explain();
}

TEST(BlockList, RejectsTensorsThatDoNotFit) {
  const AttentionInputs in({1, 1}, 1, 300, 420, 16, Device::cpu());
  const auto message = [&](AttentionSpec spec) {
    try {
      in.run(attention(std::move(spec)));
    } catch (const CompileError& e) {
      return std::string(e.what());
    }
    return std::string("nothing is refused");
  };
  const auto ints = [](const Dims& shape, DType d = DType::i32) {
    return Tensor::zeros(shape, d, Device::cpu());
  };
  const auto expect = [&](AttentionSpec spec, const char* text) {
    EXPECT_NE(message(spec).find(text), std::string::npos) << message(spec);
  };
  expect({.blocks = BlockList{ints({1, 1, 3, 4}, DType::i64), ints({1, 1, 3})}},
         "BlockList::kv_indices is i64[1, 1, 3, 4] on cpu");
  expect({.blocks = BlockList{ints({1, 1, 3, 4}), ints({1, 3})}}, "it must be i32 of rank 3");
  expect({.blocks = BlockList{ints({1, 1, 2, 4}), ints({1, 1, 3})}},
         "there are [1, 1, 3] batch entries, heads and tiles");
  expect({.blocks = BlockList{ints({1, 1, 3, 4}), ints({1, 1, 3}), {}, 100, 128}},
         "a BlockList with blocks of 100 x 128 is not supported");
  expect({.kv_range = causal_range, .blocks = BlockList{ints({1, 1, 3, 4}), ints({1, 1, 3})}},
         "`blocks` cannot be combined with `kv_range` or `full_kv_range`");
}

}  // namespace
}  // namespace tegula::block_list_test
