// Steps that verify a tree of draft tokens per request, whose parents are in device memory, against
// attention in f64.
#include "tegula/block_mask.h"
#include "tegula/kernels/token_trees.h"
#include "tests/differential/attention/paged_tensors.h"

namespace tegula::test::token_tree_test {
using namespace kernels;
namespace {

class TokenTrees : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, TokenTrees, testing::ValuesIn(devices()), device_name);

/// The trees of a step: parents of the nodes of each request, which precede their nodes.
using Parents = std::vector<std::vector<int>>;

bool is_ancestor(const std::vector<int>& parents, int node, int of) {
  for (int at = of; at >= 0; at = parents[static_cast<std::size_t>(at)])
    if (at == node) return true;
  return false;
}

Parents random_trees(const Lengths& l, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Parents trees;
  for (const i32 n : l.q) {
    std::vector<int>& tree = trees.emplace_back();
    for (i32 i = 0; i < n; ++i)
      tree.push_back(static_cast<int>(random() % static_cast<unsigned>(i + 1)) - 1);
  }
  return trees;
}

struct Step {
  PagedRequests requests;
  Parents trees;
  int nodes;
  Tensor parents, bits;

  Step(const CacheExtents& extents, const Lengths& l, int of_nodes, Device device,
       std::uint64_t seed)
      : requests(extents, l, device, seed, DType::bf16, 128),
        trees(random_trees(l, seed)),
        nodes(of_nodes) {
    const std::int64_t rows = requests.Q.size(0);
    parents = Tensor::full({rows}, 1000, DType::i32, device);
    bits = Tensor::full({rows * ((nodes + 31) / 32)}, -1, DType::i32, device);
    write_parents();
  }

  void write_parents() const {
    std::vector<i32> all(static_cast<std::size_t>(parents.size(0)), 1000);
    std::size_t row = 0;
    for (const std::vector<int>& tree : trees)
      for (const int parent : tree) all[row++] = parent;
    parents.copy_from(Tensor::from(all, parents.device()));
  }

  void write_bits() const {
    ancestor_bits(Stream(bits.device()), parents, requests.batch, bits, nodes);
  }

  /// The host's mask, whose positions are those of the request.
  HostAttention host() const {
    HostAttention of;
    of.mask = [this](int b, int, int q, int kv) {
      const auto r = static_cast<std::size_t>(b);
      const int prefix = requests.lengths.kv[r] - requests.lengths.q[r];
      return kv < prefix || (q >= prefix && is_ancestor(trees[r], kv - prefix, q - prefix));
    };
    return of;
  }
};

TEST_P(TokenTrees, BitsOfAncestors) {
  for (const int nodes : {5, 32, 70}) {
    SCOPED_TRACE(nodes);
    const Lengths l{{5, 0, 1, std::min(nodes, 40)}, {90, 0, 1, 64}};
    const Step step({}, l, nodes, GetParam(), 3);
    step.write_bits();
    const std::vector<double> bits = step.bits.to_doubles();
    const auto words = static_cast<std::size_t>((nodes + 31) / 32);
    std::size_t row = 0;
    for (const std::vector<int>& tree : step.trees)
      for (int i = 0; i < std::ssize(tree); ++i, ++row)
        for (int j = 0; j < nodes; ++j) {
          const auto word = static_cast<std::uint32_t>(
              static_cast<std::int64_t>(bits[row * words + static_cast<std::size_t>(j / 32)]));
          ASSERT_EQ((word >> (j % 32) & 1) != 0, j < std::ssize(tree) && is_ancestor(tree, j, i))
              << row << " " << j;
        }
    for (std::size_t i = row * words; i < bits.size(); ++i) ASSERT_EQ(bits[i], -1) << "no request";
  }
}

/// A node sees the prefix and its ancestors, in tiles of all heads of a group and in others.
TEST_P(TokenTrees, EqualAttentionInDoubles) {
  const Lengths l{{8, 1, 0, 3, 6}, {700, 40, 0, 3, 130}};
  for (const int nodes : {8, 40})
    for (const bool packs : {true, false})
      for (const bool has_list : {true, false}) {
        SCOPED_TRACE(nodes);
        Step step({.heads = 8, .kv_heads = 2}, l, nodes, GetParam(), 5);
        step.write_bits();
        PagedRequests& p = step.requests;
        const Attention attention({.mask = masks::tree(p.batch, step.bits, nodes)},
                                  {.pack_gqa = packs});
        if (has_list) {
          const std::int64_t words = schedule_words(std::ssize(l.kv), GetParam());
          p.batch.schedule = Tensor::full({words}, -1, DType::i32, GetParam());
          attention.schedule(Stream(GetParam()), p.Q, p.cache, p.batch, p.batch.schedule);
        }
        p.run(attention);
        p.expect(step.host());
        if (HasFatalFailure()) return;
      }
}

/// The bits of a node are several words.
TEST_P(TokenTrees, NodesOfSeveralWords) {
  const Step step({.heads = 2, .kv_heads = 1}, {{40, 3}, {90, 50}}, 70, GetParam(), 8);
  step.write_bits();
  step.requests.run(Attention({.mask = masks::tree(step.requests.batch, step.bits, 70)}));
  step.requests.expect(step.host());
}

/// New trees and lengths need no new mask and no compilation.
TEST_P(TokenTrees, ChangeBetweenCalls) {
  const Lengths l{{4, 4, 2}, {100, 64, 300}};
  Step step({.dim = 104, .head_dim_v = 40}, l, 4, GetParam(), 6);
  const Attention attention({.mask = masks::tree(step.requests.batch, step.bits, 4)});
  for (const std::vector<int>& tree :
       {std::vector<int>{-1, 0, 1, 2}, {-1, -1, -1, 0}, {-1, 0, 0, 1}}) {
    step.trees = {tree, tree, {tree[0], tree[1]}};
    step.write_parents();
    step.write_bits();
    step.requests.run(attention);
    step.requests.expect(step.host());
    if (HasFatalFailure()) return;
  }
}

/// Keys more than `nodes` positions before the first query do not need the table, so only the
/// last blocks are masked; all keys are visited.
TEST_P(TokenTrees, LeaveThePrefixUnmasked) {
  const Step step({}, {{4}, {600}}, 4, GetParam(), 7);
  const BlockMask mask(masks::tree(step.requests.batch, step.bits, 4));
  const auto record = kernel("record_ranges", [&mask](Scalar<i32> first, Scalar<i32> last,
                                                      Scalar<i32> length, Out<i32, 1> ends) {
    for ([[maybe_unused]] auto program : grid(GridSpace(Tile(1)), 1)) {
      const KvRanges keys = mask.record(first, last, length);
      ends(0) = keys.visible ? min(keys.visible->hi, length) : Tile(length);
      ends(1) = keys.full ? keys.full->hi : Tile(-1);
      ends(2) = keys.full ? keys.full->lo : Tile(-1);
    }
  });
  const Tensor ends = Tensor::zeros({3}, DType::i32, GetParam());
  record(Stream(GetParam()), 596, 599, 600, ends);
  const std::vector<double> got = ends.to_doubles();
  EXPECT_EQ(got[0], 600);
  EXPECT_EQ(got[1], 593);
  EXPECT_LE(got[2], 0);
}

}  // namespace
}  // namespace tegula::test::token_tree_test
