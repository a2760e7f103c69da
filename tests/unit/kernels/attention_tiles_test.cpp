// Extents of attention's tiles, and when more keys a step are worth it.
#include <gtest/gtest.h>

#include "kernels/attention/block_sizes.h"

namespace tegula {
namespace {

bool is_wide(int dim, KeyReach reach, AttentionLengths lengths) {
  return best_form({dim, dim}, reach, lengths, {.has_wgmma = false}) == TileForm::wide;
}

TEST(AttentionTiles, WideOnesFitRegistersAndSharedMemory) {
  for (int dim = 8; dim <= kMaxHeadDim; dim += 8) {
    SCOPED_TRACE(dim);
    const int narrow = attention_tiles({dim, dim}).keys, wide = wide_tiles({dim, dim}).keys,
              padded = padded_head_dim(dim);
    EXPECT_EQ(wide % 16, 0);
    EXPECT_GE(wide, narrow);
    EXPECT_LE(128 * padded * 2 + 2 * wide * 2 * padded * 2, 225 * 1024);
    EXPECT_LE(wide / 2 + wide / 4 + padded / 2, 200);
  }
  EXPECT_EQ(wide_tiles({128, 128}).keys, 176);
  EXPECT_EQ(wide_tiles({64, 64}).keys, 224);
}

TEST(AttentionTiles, WideOnesAreForManyKeys) {
  for (const int dim : {64, 96, 128, 256}) {
    SCOPED_TRACE(dim);
    EXPECT_TRUE(is_wide(dim, KeyReach::all, {16384, 16384}));
    EXPECT_TRUE(is_wide(dim, KeyReach::up_to_row, {16384, 16384}));
    EXPECT_FALSE(is_wide(dim, KeyReach::all, {16384, 64}));
    EXPECT_FALSE(is_wide(dim, KeyReach::all, {0, 0}));
    EXPECT_FALSE(is_wide(dim, KeyReach::up_to_row, {64, 64}));
  }
  // Fewer rows than a block is wide: more of it lies behind the diagonal.
  EXPECT_FALSE(is_wide(128, KeyReach::all, {1024, 1024}));
  EXPECT_FALSE(is_wide(128, KeyReach::up_to_row, {1024, 1024}));
}

TEST(AttentionTiles, WhatAMaskLeavesDependsOnWhereQueriesStand) {
  EXPECT_FALSE(is_wide(128, KeyReach::up_to_row, {128, 16384}));
  EXPECT_TRUE(is_wide(128, KeyReach::up_to_row, {128, 16384, 16384 - 128}));
  // Most rows lie behind the last key.
  EXPECT_TRUE(is_wide(128, KeyReach::up_to_row, {1 << 20, 8192}));
}

TEST(AttentionTiles, ScoresOfDistancesLeaveMoreKeysThanOthersThatRead) {
  constexpr ScoreCost distance{.of_position = true, .of_distance = true},
      element{.of_position = true, .of_element = true};
  const auto keys = [](int dim, ScoreCost score) {
    return attention_tiles({dim, dim, score}).keys;
  };
  for (const int dim : {64, 80, 96}) {
    EXPECT_EQ(keys(dim, distance), 128);
    EXPECT_EQ(keys(dim, element), 64);
  }
  EXPECT_EQ(keys(128, distance), 112);
  EXPECT_EQ(keys(256, distance), 32);
  EXPECT_EQ(attention_tiles({256, 256, distance, /*has_gaps=*/true}).keys, 32);
  EXPECT_EQ(tall_tiles({64, 64, distance}, KeyReach::all).keys, 64);
}

TEST(AttentionTiles, WhatTmaBringsForScoresFitsBesideTheOperands) {
  const auto keys = [](int dim, int bytes) {
    const ScoreCost score{.of_position = true, .of_element = true, .box_bytes = bytes};
    return boxed_tiles({dim, dim, score}).keys;
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

TEST(AttentionTiles, TallOnesFitRegistersAndSharedMemory) {
  for (int dim = 8; dim <= kMaxHeadDim; dim += 8)
    for (const KeyReach reach : {KeyReach::all, KeyReach::unknown}) {
      SCOPED_TRACE(dim);
      const AttentionTiles tall = tall_tiles({dim, dim}, reach);
      const int padded = padded_head_dim(dim);
      EXPECT_EQ(tall.queries, 192);
      EXPECT_EQ(tall.keys % 16, 0);
      EXPECT_LE(192 * padded * 2 + 2 * tall.keys * 2 * padded * 2, 225 * 1024);
      EXPECT_LE(tall.keys / 2 + tall.keys / 4 + padded / 2, 128);
    }
  EXPECT_EQ(tall_tiles({64, 64}, KeyReach::up_to_row).keys, 128);
  EXPECT_EQ(tall_tiles({64, 64}, KeyReach::unknown).keys, 112);
  EXPECT_EQ(tall_tiles({64, 64, {.of_element = true}}, KeyReach::all).keys, 64);
  EXPECT_EQ(tall_tiles({80, 80}, KeyReach::all).keys, 112);
  EXPECT_EQ(tall_tiles({96, 96}, KeyReach::all).keys, 96);
}

TEST(AttentionTiles, TallOnesAreForManyRowsOfSmallHeadDims) {
  const auto is_tall = [](TileNeeds needs, KeyReach reach, std::int64_t length,
                          std::int64_t matrices = 64) {
    return best_form(needs, reach, {length, length, 0, matrices}) == TileForm::tall;
  };
  for (const std::int64_t length : {0, 64, 128}) {
    EXPECT_FALSE(is_tall({64, 64}, KeyReach::all, length));
    EXPECT_FALSE(is_tall({64, 64}, KeyReach::up_to_row, length));
  }
  for (const std::int64_t length : {4096, 16384, 10000}) {
    EXPECT_TRUE(is_tall({64, 64}, KeyReach::all, length));
    EXPECT_TRUE(is_tall({64, 64}, KeyReach::up_to_row, length));
    EXPECT_TRUE(is_tall({80, 80}, KeyReach::all, length));
    EXPECT_FALSE(is_tall({128, 128}, KeyReach::all, length));
    EXPECT_FALSE(is_tall({64, 64}, KeyReach::unknown, length));
  }
  // One tile in eight has rows behind the last, and more lies behind the diagonal.
  EXPECT_FALSE(is_tall({64, 64}, KeyReach::up_to_row, 1024, 256));
  // One round of tiles, and fewer SMs have one.
  EXPECT_FALSE(is_tall({64, 64}, KeyReach::all, 1024, 16));
  EXPECT_FALSE(is_tall({64, 64, {}, true}, KeyReach::all, 16384));
  EXPECT_FALSE(is_tall({64, 64, {.of_element = true}}, KeyReach::all, 16384));
  EXPECT_EQ(best_form({64, 64}, KeyReach::all, {16384, 16384, 0, 64}, {.has_wgmma = false}),
            TileForm::wide);
}

TEST(AttentionTiles, UsualWhereLittleIsKnownOrRegistersAreTaken) {
  const AttentionLengths many{16384, 16384};
  for (const TileNeeds& needs :
       {TileNeeds{128, 128, {}, true}, TileNeeds{128, 128, {.of_element = true}}})
    EXPECT_EQ(best_form(needs, KeyReach::all, many), TileForm::usual);
  EXPECT_EQ(best_form({128, 128}, KeyReach::unknown, many), TileForm::usual);
}

}  // namespace
}  // namespace tegula
