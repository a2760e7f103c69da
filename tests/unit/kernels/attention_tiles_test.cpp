// Extents of attention's tiles, and when more keys a step are worth it.
#include <gtest/gtest.h>

#include "tegula/attention_tiles.h"

namespace tegula::attention_tiles_test {
namespace {

AttentionProblem problem(int dim, KvExtent kv_extent, std::int64_t queries, std::int64_t keys) {
  return {
      .queries = queries, .keys = keys, .head_dim = dim, .head_dim_v = dim, .kv_extent = kv_extent};
}
DeviceProfile without_wgmma() {
  DeviceProfile gpu = host_profile();
  gpu.capability = 80;
  return gpu;
}

struct Lengths {
  std::int64_t queries, keys, first_query = 0;
};
bool is_wide(int dim, KvExtent kv_extent, Lengths lengths) {
  AttentionProblem p = problem(dim, kv_extent, lengths.queries, lengths.keys);
  p.first_query = lengths.first_query;
  const AttentionTileShape tiles = choose_attention(p, without_wgmma()).tiles();
  EXPECT_TRUE(tiles == large_n_tiles({dim, dim}) || tiles == attention_tiles({dim, dim}));
  return tiles != attention_tiles({dim, dim});
}

TEST(AttentionTileShape, WideOnesFitRegistersAndSharedMemory) {
  for (int dim = 8; dim <= kMaxHeadDim; dim += 8) {
    SCOPED_TRACE(dim);
    const int narrow = attention_tiles({dim, dim}).block_kv,
              wide = large_n_tiles({dim, dim}).block_kv, padded = padded_head_dim(dim);
    EXPECT_EQ(wide % 16, 0);
    EXPECT_GE(wide, narrow);
    EXPECT_LE(128 * padded * 2 + 2 * wide * 2 * padded * 2, 225 * 1024);
    EXPECT_LE(wide / 2 + wide / 4 + padded / 2, 200);
  }
  EXPECT_EQ(large_n_tiles({128, 128}).block_kv, 176);
  EXPECT_EQ(large_n_tiles({64, 64}).block_kv, 224);
}

TEST(AttentionTileShape, WideOnesAreForManyKeys) {
  for (const int dim : {64, 96, 128, 256}) {
    SCOPED_TRACE(dim);
    EXPECT_TRUE(is_wide(dim, KvExtent::full, {16384, 16384}));
    EXPECT_TRUE(is_wide(dim, KvExtent::causal, {16384, 16384}));
    EXPECT_FALSE(is_wide(dim, KvExtent::full, {16384, 64}));
    EXPECT_FALSE(is_wide(dim, KvExtent::full, {0, 0}));
    EXPECT_FALSE(is_wide(dim, KvExtent::causal, {64, 64}));
  }
  // Fewer rows than a block is wide: more of it is after the diagonal.
  EXPECT_FALSE(is_wide(128, KvExtent::full, {1024, 1024}));
  EXPECT_FALSE(is_wide(128, KvExtent::causal, {1024, 1024}));
}

TEST(AttentionTileShape, MaskedWorkDependsOnTheAlignmentOfQueries) {
  EXPECT_FALSE(is_wide(128, KvExtent::causal, {128, 16384}));
  EXPECT_TRUE(is_wide(128, KvExtent::causal, {128, 16384, 16384 - 128}));
  // Most rows are after the last key.
  EXPECT_TRUE(is_wide(128, KvExtent::causal, {1 << 20, 8192}));
}

TEST(AttentionTileShape, ScoresOfDistancesLeaveMoreKeysThanOthersThatRead) {
  constexpr ScoreTraits distance{.reads_kv_index = true, .is_toeplitz = true},
      element{.reads_kv_index = true, .has_per_element_state = true};
  const auto keys = [](int dim, ScoreTraits score) {
    return attention_tiles({dim, dim, score}).block_kv;
  };
  for (const int dim : {64, 80, 96}) {
    EXPECT_EQ(keys(dim, distance), 128);
    EXPECT_EQ(keys(dim, element), 64);
  }
  EXPECT_EQ(keys(128, distance), 112);
  EXPECT_EQ(keys(256, distance), 32);
  EXPECT_EQ(attention_tiles({256, 256, distance, /*is_non_contiguous=*/true}).block_kv, 32);
  EXPECT_EQ(three_warpgroup_tiles({64, 64, distance}, KvExtent::full).block_kv, 64);
}

TEST(AttentionTileShape, AuxLoadsFitNextToTheOperands) {
  const auto keys = [](int dim, int bytes) {
    const ScoreTraits score{
        .reads_kv_index = true, .has_per_element_state = true, .tma_bytes_per_element = bytes};
    return tma_bias_tiles({dim, dim, score}).block_kv;
  };
  for (int dim = 8; dim <= kMaxHeadDim; dim += 8)
    for (const int bytes : {2, 4, 8}) {
      SCOPED_TRACE(testing::Message() << dim << ", " << bytes << " bytes");
      const int padded = padded_head_dim(dim), n = keys(dim, bytes);
      EXPECT_GE(n, 16);
      EXPECT_LE(128 * padded * 2 + 2 * n * (2 * padded * 2 + 128 * bytes), 225 * 1024);
    }
  EXPECT_EQ(keys(64, 2), 128);
  EXPECT_EQ(keys(128, 2), 128);
  EXPECT_EQ(keys(64, 4), 96);
  EXPECT_EQ(keys(128, 4), 80);
  EXPECT_EQ(keys(192, 2), 80);
  EXPECT_EQ(keys(256, 2), 48);
  EXPECT_EQ(keys(256, 4), 32);
}

TEST(AttentionTileShape, TallOnesFitRegistersAndSharedMemory) {
  for (int dim = 8; dim <= kMaxHeadDim; dim += 8)
    for (const KvExtent kv_extent : {KvExtent::full, KvExtent::unknown}) {
      SCOPED_TRACE(dim);
      const AttentionTileShape tall = three_warpgroup_tiles({dim, dim}, kv_extent);
      const int padded = padded_head_dim(dim);
      EXPECT_EQ(tall.block_q, 192);
      EXPECT_EQ(tall.block_kv % 16, 0);
      EXPECT_LE(192 * padded * 2 + 2 * tall.block_kv * 2 * padded * 2, 225 * 1024);
      EXPECT_LE(tall.block_kv / 2 + tall.block_kv / 4 + padded / 2, 128);
    }
  EXPECT_EQ(three_warpgroup_tiles({64, 64}, KvExtent::causal).block_kv, 128);
  EXPECT_EQ(three_warpgroup_tiles({64, 64}, KvExtent::unknown).block_kv, 112);
  EXPECT_EQ(
      three_warpgroup_tiles({64, 64, {.has_per_element_state = true}}, KvExtent::full).block_kv,
      64);
  EXPECT_EQ(three_warpgroup_tiles({80, 80}, KvExtent::full).block_kv, 112);
  EXPECT_EQ(three_warpgroup_tiles({96, 96}, KvExtent::full).block_kv, 96);
}

TEST(AttentionTileShape, TallOnesAreForManyRowsOfSmallHeadDims) {
  const auto is_tall = [](int dim, KvExtent kv_extent, std::int64_t length,
                          std::int64_t matrices = 64) {
    AttentionProblem p = problem(dim, kv_extent, length, length);
    p.matrices = matrices;
    return choose_attention(p, host_profile()).block_q == 192;
  };
  for (const std::int64_t length : {0, 64, 128}) {
    EXPECT_FALSE(is_tall(64, KvExtent::full, length));
    EXPECT_FALSE(is_tall(64, KvExtent::causal, length));
  }
  for (const std::int64_t length : {4096, 16384, 10000}) {
    EXPECT_TRUE(is_tall(64, KvExtent::full, length));
    EXPECT_TRUE(is_tall(64, KvExtent::causal, length));
    EXPECT_TRUE(is_tall(80, KvExtent::full, length));
    EXPECT_FALSE(is_tall(128, KvExtent::full, length));
    EXPECT_FALSE(is_tall(64, KvExtent::unknown, length));
  }
  // One tile in eight has rows after the last, and more is after the diagonal.
  EXPECT_FALSE(is_tall(64, KvExtent::causal, 1024, 256));
  // One wave of tiles, and fewer SMs have one.
  EXPECT_FALSE(is_tall(64, KvExtent::full, 1024, 16));
  AttentionProblem p = problem(64, KvExtent::full, 16384, 16384);
  p.matrices = 64;
  EXPECT_EQ(choose_attention(p, without_wgmma()).tiles(), large_n_tiles({64, 64}));
  p.has_score = true;
  EXPECT_EQ(choose_attention(p, host_profile()).block_q, 128);
  p.has_per_element_state = true;
  EXPECT_EQ(choose_attention(p, host_profile()).block_q, 128);
}

TEST(AttentionTileShape, UsualWhereLittleIsKnownOrRegistersAreTaken) {
  AttentionProblem many = problem(128, KvExtent::unknown, 16384, 16384);
  EXPECT_EQ(choose_attention(many, host_profile()).tiles(), attention_tiles({128, 128}));
  many.kv_extent = KvExtent::full;
  EXPECT_EQ(choose_attention(many, host_profile()).tiles(), large_n_tiles({128, 128}));
  many.has_per_element_state = true;
  EXPECT_EQ(choose_attention(many, host_profile()).tiles(),
            attention_tiles({128, 128, {.has_per_element_state = true}}));
  many.has_per_element_state = false, many.is_non_contiguous = true;
  EXPECT_EQ(choose_attention(many, host_profile()).tiles(),
            attention_tiles({128, 128, {}, /*is_non_contiguous=*/true}));
}

}  // namespace
}  // namespace tegula::attention_tiles_test
