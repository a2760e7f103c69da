// The spaces of attention: what is enumerated obeys every rule, is named once, and comes back from
// its text; every rule has something to refuse; splits as they were measured.
#include "autotune/attention/space.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "autotune/calls/candidate_list.h"
#include "tegula/attention_tiles.h"
#include "tests/unit/autotune/sound_space.h"

namespace tegula::autotune::attention_space_test {
namespace {

using test::expect_sound;
using test::limits;

std::vector<AttentionProblem> attention_problems(int count) {
  std::mt19937 random(7);
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  const auto asked = [&] { return static_cast<AskedFor>(random() % 3); };
  std::vector<AttentionProblem> all;
  for (int i = 0; i < count; ++i) {
    AttentionProblem p{.queries = one_of({1, 16, 100, 4096, 16384})};
    p.keys = one_of({0, 64, 1000, 8192}), p.matrices = one_of({1, 16, 128});
    p.head_dim = static_cast<int>(8 * (1 + random() % 32));
    p.head_dim_v = random() % 2 == 0 ? p.head_dim : static_cast<int>(8 * (1 + random() % 32));
    p.kv_extent = static_cast<KvExtent>(random() % 3);
    p.pack_gqa = random() % 4 == 0, p.is_non_contiguous = random() % 4 == 0;
    p.splits_kv = p.queries <= kSmallQBlock && random() % 2 == 0;
    p.has_score = random() % 2 == 0;
    p.has_per_element_state = p.has_score && random() % 2 == 0;
    if (p.has_per_element_state && random() % 2 == 0) p.tma_bytes_per_element = 2;
    p.speculation = asked(), p.speculation_pays = random() % 2 == 0, p.longest_first = asked();
    all.push_back(p);
  }
  return all;
}

std::vector<SplitKvProblem> split_problems() {
  std::vector<SplitKvProblem> all;
  for (const std::int64_t tiles : {1, 8, 40, 100, 1000})
    for (const std::int64_t keys : {1024, 5000, 65536, 1 << 20}) all.push_back({tiles, keys, 512});
  return all;
}

TEST(AttentionSpace, IsSound) { expect_sound(attention_space(), attention_problems(300)); }
TEST(SplitKvSpace, IsSound) { expect_sound(split_kv_space(), split_problems()); }

/// bench/results/sweeps/2026-11-24-h200-key-splits.jsonl.
TEST(SplitKvSpace, SplitsAsMeasured) {
  const auto split = [](std::int64_t tiles, std::int64_t keys) {
    return choose_split_kv({tiles, keys, 512}, host_profile());
  };
  EXPECT_EQ(split(132, 8192).all(), 1) << "every SM has a tile";
  EXPECT_EQ(split(64, 8192), (SplitKv{2, 1}));
  EXPECT_EQ(split(8, 8192), (SplitKv{8, 1})) << "one cluster, through its shared memory";
  EXPECT_EQ(split(1, 65536).cluster_ctas, 8);
  EXPECT_GT(split(1, 65536).clusters, 1) << "so long that memory is waited for";
  EXPECT_EQ(choose_split_kv({8, 8192, 512},
                            [] {
                              DeviceProfile gpu = host_profile();
                              gpu.capability = 80;
                              return gpu;
                            }()),
            SplitKv{})
      << "no clusters";
}

/// The tuner's candidates go beyond the model's shapes, within what can be made.
TEST(AttentionSpace, CandidatesOfTheTuner) {
  const AttentionProblem p{.queries = 4096,
                           .keys = 4096,
                           .head_dim = 200,
                           .head_dim_v = 200,
                           .kv_extent = KvExtent::causal};
  const DeviceProfile& gpu = host_profile();
  const AttentionConfig model = choose_attention(p, gpu);
  const auto texts = [&](bool may_change_bits) {
    return list_candidates(attention_space(), p, gpu, model, {64, may_change_bits, ""}).texts;
  };
  std::set<int> keys, rows;
  for (const std::string& text : texts(true)) {
    const auto c = parse<AttentionConfig>(text);
    ASSERT_TRUE(c);
    EXPECT_TRUE(is_runnable(attention_space(), p, *c, limits())) << text;
    keys.insert(c->block_kv), rows.insert(c->block_q);
    EXPECT_FALSE(c->is_speculative || c->longest_first) << "not asked for";
  }
  EXPECT_GE(keys.size(), 3u);
  EXPECT_GE(rows.size(), 2u);
  for (const std::string& text : texts(false))
    EXPECT_EQ(parse<AttentionConfig>(text)->block_kv, model.block_kv) << "other bits";
}

}  // namespace
}  // namespace tegula::autotune::attention_space_test
