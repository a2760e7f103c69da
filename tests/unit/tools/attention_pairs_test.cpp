// Pairs that attention computes, its mask keeps and the best cover has, against enumeration.
#include "tools/workload/attention_pairs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tegula/kernels/masks.h"
#include "tegula/tegula.h"

namespace tegula::attention_pairs_test {
using namespace kernels;
namespace {

using Sees = std::function<bool(int q, int kv)>;

/// How the blocks of a tile lie.
enum class Walk : std::uint8_t {
  from_first_key,  ///< each begins at the first visible key that none before it has
  aligned,         ///< at multiples of their keys, those that hold a visible key
};

struct Shape {
  int queries, keys;
};
constexpr Shape kShapes[]{{1, 1}, {113, 203}, {203, 113}, {256, 256}, {300, 1000}};

Tensor empty(int length, int dim) {
  return Tensor::zeros({1, 1, length, dim}, DType::bf16, Device::cpu());
}

AttentionWorkload pairs_of(const AttentionSpec& spec, Shape s, int dim = 64,
                           const AttentionSchedule& schedule = {}) {
  return attention_pairs(spec, empty(s.queries, dim), empty(s.keys, dim), empty(s.keys, dim),
                         schedule);
}

/// Whether some of the rows [q0, q1) attends to a key.
bool is_seen(const Sees& sees, int q0, int q1, int kv0, int kv1) {
  for (int q = q0; q < q1; ++q)
    for (int kv = kv0; kv < kv1; ++kv)
      if (sees(q, kv)) return true;
  return false;
}

/// Blocks of keys that a tile of rows [q0, q1) visits.
int visited(const Sees& sees, Walk walk, int q0, int q1, int keys, int block) {
  int count = 0;
  for (int kv = 0; kv < keys;) {
    const int end = std::min(keys, kv + (walk == Walk::aligned ? block : 1));
    const bool is_block = is_seen(sees, q0, q1, kv, end);
    count += is_block;
    kv = is_block ? kv + block : end;
  }
  return count;
}

void check(const AttentionWorkload& got, const Sees& sees, Walk walk, Shape s) {
  SCOPED_TRACE(std::to_string(s.queries) + " x " + std::to_string(s.keys) + ", tiles of " +
               std::to_string(got.tiles.block_q) + " x " + std::to_string(got.tiles.block_kv));
  std::int64_t kept = 0, cover = 0, computed = 0;
  for (int q = 0; q < s.queries; ++q)
    for (int kv = 0; kv < s.keys; ++kv) kept += sees(q, kv);
  for (int q = 0; q < s.queries; q += 64)
    for (int kv = 0; kv < s.keys; kv += 8)
      cover += 64 * 8 * is_seen(sees, q, std::min(s.queries, q + 64), kv, std::min(s.keys, kv + 8));
  const auto [rows, block] = got.tiles;
  for (int q = 0; q < s.queries; q += rows) {
    const int end = std::min(s.queries, q + rows);
    computed += std::int64_t{rows} * block * visited(sees, walk, q, end, s.keys, block);
  }
  EXPECT_EQ(got.kept, kept);
  EXPECT_EQ(got.cover, cover);
  EXPECT_EQ(got.computed, computed);
}

void check_all(const AttentionSpec& spec, const Sees& sees, Walk walk, int dim = 64) {
  for (const Shape s : kShapes) check(pairs_of(spec, s, dim), sees, walk, s);
}

TEST(AttentionWorkload, AllKeys) {
  check_all({}, [](int, int) { return true; }, Walk::from_first_key);
  check_all({.mask = masks::full()}, [](int, int) { return true; }, Walk::from_first_key, 128);
}

TEST(AttentionWorkload, CausalMasks) {
  for (const int dim : {64, 128})
    check_all(
        {.mask = masks::causal()}, [](int q, int kv) { return q >= kv; }, Walk::from_first_key,
        dim);
}

TEST(AttentionWorkload, Windows) {
  for (const int n : {0, 7, 100})
    check_all(
        {.mask = masks::sliding_window(n)}, [=](int q, int kv) { return q >= kv && q - kv <= n; },
        Walk::from_first_key);
  check_all(
      {.mask = masks::window(Scalar<i32>(30), 50)},
      [](int q, int kv) { return -50 <= q - kv && q - kv <= 30; }, Walk::from_first_key);
}

TEST(AttentionWorkload, Prefixes) {
  check_all(
      {.mask = masks::prefix_lm(Scalar<i32>(77))}, [](int q, int kv) { return kv < 77 || q >= kv; },
      Walk::from_first_key);
}

TEST(AttentionWorkload, RangesWithGaps) {
  for (const int n : {60, 200, 333})
    for (const int dim : {64, 256})
      check_all(
          {.mask = masks::sink_window(4, n)},
          [=](int q, int kv) { return q >= kv && (kv < 4 || q - kv <= n); }, Walk::from_first_key,
          dim);
}

TEST(AttentionWorkload, Documents) {
  std::vector<i32> ids, starts;
  for (const int length : {100, 3, 150, 40, 300, 407}) {
    starts.push_back(static_cast<i32>(ids.size()));
    ids.insert(ids.end(), static_cast<std::size_t>(length), static_cast<i32>(starts.size()) - 1);
  }
  const Mask mask =
      masks::packed_causal(Tensor::from(ids, Device::cpu()), Tensor::from(starts, Device::cpu()));
  check_all(
      {.mask = mask},
      [&](int q, int kv) {
        return q >= kv && ids[static_cast<std::size_t>(q)] == ids[static_cast<std::size_t>(kv)];
      },
      Walk::aligned);
}

TEST(AttentionWorkload, MaskWithUndecidedEmptyBlocks) {
  const AttentionWorkload got =
      pairs_of({.mask = masks::and_(masks::causal(), masks::not_(masks::causal()))}, {300, 300});
  EXPECT_EQ(got.kept, 0);
  EXPECT_EQ(got.cover, 0);
}

TEST(AttentionWorkload, QueriesAtTheEnd) {
  const Shape s{113, 203};
  check(
      pairs_of({.mask = masks::causal(), .align_bottom_right = true}, s),
      [](int q, int kv) { return q + 90 >= kv; }, Walk::from_first_key, s);
}

TEST(AttentionWorkload, GivenTilesAndThoseThatLengthsAskFor) {
  const Shape s{256, 256};
  const AttentionWorkload given =
      pairs_of({.mask = masks::causal()}, s, 64, {.tiles = AttentionTileShape{192, 48}});
  EXPECT_EQ(given.tiles.block_q, 192);
  EXPECT_EQ(given.tiles.block_kv, 48);
  check(given, [](int q, int kv) { return q >= kv; }, Walk::from_first_key, s);
  const Shape few{256, 256}, many{16384, 16384};
  EXPECT_EQ(pairs_of({.mask = masks::causal()}, few, 128).tiles.block_kv, 128);
  EXPECT_EQ(pairs_of({.mask = masks::causal()}, many, 128).tiles.block_kv, 176);
}

TEST(AttentionWorkload, ListsOfTheCaller) {
  // Two tiles of 64 queries and blocks of 32 keys: {2, 0} and {1}.
  const auto table = [](std::vector<i32> values, Dims shape) {
    return Tensor::from(values, Device::cpu()).reshape(shape);
  };
  AttentionSpec spec;
  spec.blocks = BlockList{.kv_indices = table({2, 0, 1, 1}, {1, 1, 2, 2}),
                          .kv_num_blocks = table({2, 1}, {1, 1, 2}),
                          .full_kv_num_blocks = table({0, 0}, {1, 1, 2}),
                          .block_q = 64,
                          .block_kv = 32};
  EXPECT_EQ(pairs_of(spec, {128, 96}).computed, 3 * 64 * 32);
}

}  // namespace
}  // namespace tegula::attention_pairs_test
