// The space of tiles of attention's backward pass: sound, and what calls use without a tuner.
#include "autotune/attention/backward_space.h"

#include <gtest/gtest.h>

#include "autotune/calls/candidate_list.h"
#include "tests/unit/autotune/sound_space.h"

namespace tegula::autotune::attention_backward_space_test {
namespace {

using P = AttentionBackwardProblem;
using C = AttentionBackwardConfig;

P problem(int columns, int columns_v) {
  return {.queries = 4096,
          .keys = 4096,
          .matrices = 64,
          .columns = columns,
          .columns_v = columns_v,
          .adds_queries = true,
          .has_both = true};
}

std::vector<P> problems() {
  std::vector<P> all;
  for (const int columns : {16, 64, 128, 192, 256})
    for (const int columns_v : {16, 64, 128, 256}) {
      P p = problem(columns, columns_v);
      all.push_back(p);
      p.kv_extent = KvExtent::causal, p.sums_captures = true;
      all.push_back(p);
      p.is_varlen = true, p.sequences = 8, p.sums_captures = false;
      all.push_back(p);
      p.of_queries = true, p.adds_queries = false;
      all.push_back(p);
      p.is_varlen = false, p.has_lists = true;
      all.push_back(p);
      p.of_queries = false, p.adds_queries = p.has_both = true, p.has_lists = false;
      all.push_back(p);
    }
  all.push_back({});  // an empty call
  return all;
}

TEST(AttentionBackwardSpace, IsSound) {
  test::expect_sound(attention_backward_space(), problems());
}

/// One configuration of each problem, that of docs/experiments/2026-11-29-attention-backward.md.
TEST(AttentionBackwardSpace, UsualConfigurations) {
  const auto expect = [](const P& p, const C& want) {
    EXPECT_EQ(choose_attention_backward(p, host_profile()), want) << text_of(p);
  };
  expect(problem(64, 64), {.stages = 4});
  expect(problem(128, 128), {.stages = 2});
  expect(problem(64, 128), {.stages = 2});
  expect(problem(192, 128), {.launches = 2, .store_columns = 32});
  expect(problem(256, 128), {.launches = 2, .store_columns = 32});
  expect(problem(256, 256), {.block_q = 32, .launches = 2, .store_columns = 32});
  P p = problem(192, 128);
  p.kv_extent = KvExtent::causal;
  expect(p, {.block_q = 32, .heads_last = true, .store_columns = 32});
  p.has_both = false;
  expect(p, {.launches = 2, .heads_last = true, .store_columns = 32});
  p = problem(256, 256);
  p.kv_extent = KvExtent::causal;
  expect(p, {.block_q = 32, .launches = 2, .heads_last = true, .store_columns = 32});
  p = problem(128, 128);
  p.kv_extent = KvExtent::causal;
  expect(p, {.heads_last = true});
  p.is_varlen = true;
  expect(p, {});
  p = problem(128, 128);
  p.sums_captures = true;
  expect(p, {.block_q = 32});
  p = problem(64, 128);
  p.sums_captures = true;
  expect(p, {});
  p = problem(192, 128);
  p.of_queries = true, p.adds_queries = false;
  expect(p, {.store_columns = 32});
  p.is_varlen = true;
  expect(p, {.block_kv = 64, .store_columns = 32});
}

TEST(AttentionBackwardSpace, CandidatesOfATuner) {
  const auto texts_of = [](const P& p, bool may_change_bits) {
    const C usual = choose_attention_backward(p, host_profile());
    const auto list = list_candidates(attention_backward_space(), p, host_profile(), usual,
                                      {64, may_change_bits, ""});
    for (const std::string& text : list.texts) {
      const auto c = parse<C>(text);
      EXPECT_TRUE(c && is_runnable(attention_backward_space(), p, *c, test::limits())) << text;
      EXPECT_TRUE(may_change_bits || (c && c->block_q == usual.block_q)) << text;
    }
    return list.texts.size();
  };
  EXPECT_GT(texts_of(problem(64, 64), false), 6u) << "rings, and tiles of 64 keys";
  EXPECT_GT(texts_of(problem(64, 64), true), texts_of(problem(64, 64), false));
  EXPECT_GE(texts_of(problem(128, 128), false), 3u);
  EXPECT_GT(texts_of(problem(192, 128), true), texts_of(problem(192, 128), false))
      << "one launch with 32 queries";
  EXPECT_FALSE(attention_backward_space().is_reproducible(problem(64, 64)));
  P lists = problem(64, 64);
  lists.has_lists = true;
  EXPECT_LT(texts_of(lists, false), texts_of(problem(64, 64), false)) << "lists fix the keys";
}

}  // namespace
}  // namespace tegula::autotune::attention_backward_space_test
