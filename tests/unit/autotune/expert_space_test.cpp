// The space of experts' GEMMs: sound, and what the model takes.
#include "autotune/experts/space.h"

#include <gtest/gtest.h>

#include "autotune/calls/candidate_list.h"
#include "tests/unit/autotune/sound_space.h"

namespace tegula::autotune {
namespace {

std::vector<ExpertProblem> expert_problems() {
  std::vector<ExpertProblem> all;
  for (const std::int64_t rows : {0, 1, 16, 20, 64, 65, 1000})
    for (const std::int64_t columns : {64, 1024, 7168})
      for (const bool is_gated : {false, true})
        all.push_back({rows, columns, 2048, 64, ExpertProduct::up, DType::bf16, is_gated});
  return all;
}

TEST(ExpertSpace, IsSound) { test::expect_sound(expert_space(), expert_problems()); }

TEST(ExpertSpace, TheModelTakesOneByRowsAndColumns) {
  const auto tiles = [](std::int64_t rows, std::int64_t columns, bool is_gated) {
    return choose_expert_tiles({rows, columns, 2048, 64, ExpertProduct::up, DType::bf16, is_gated},
                               host_profile());
  };
  const auto expect = [](const ExpertTileConfig& c, int bm, int bn, bool swap_ab) {
    EXPECT_EQ(c, (ExpertTileConfig{.bm = bm, .bn = bn, .swap_ab = swap_ab})) << text_of(c);
  };
  expect(tiles(4, 7168, true), 16, 128, true);
  expect(tiles(20, 7168, false), 32, 128, true);
  expect(tiles(32, 64, false), 64, 64, true);
  expect(tiles(64, 7168, true), 128, 128, false);
  expect(tiles(64, 7168, false), 128, 256, false);
  expect(tiles(1000, 1024, false), 128, 128, false);
}

/// The first product of a token by 8 experts of Qwen3, and both of one by 2 of Mixtral.
TEST(ExpertSpace, FewTilesAreNarrowWhereMoreSmsReadThen) {
  const auto width = [](std::int64_t experts, std::int64_t columns, std::int64_t k) {
    return choose_expert_tiles({0, columns, k, experts}, host_profile()).bn;
  };
  EXPECT_EQ(width(8, 768, 2048), 64);
  EXPECT_EQ(width(2, 14336, 4096), 128);
  EXPECT_EQ(width(2, 4096, 14336), 64);
  EXPECT_EQ(width(128, 2048, 768), 128);
}

TEST(ExpertSpace, AnIterationHas128BytesOf8BitsToo) {
  for (const std::int64_t rows : {4, 65}) {
    const ExpertProblem p{rows, 7168, 2048, 64, ExpertProduct::up, DType::f8e4m3, true};
    const ExpertTileConfig c = choose_expert_tiles(p, host_profile());
    EXPECT_EQ(c.bk, 128) << text_of(c);
    EXPECT_EQ(c.bm, rows == 4 ? 16 : 128) << text_of(c);
  }
}

TEST(ExpertSpace, TheTunerTriesOthers) {
  const ExpertProblem p{200, 4096, 2048, 64};
  const auto list = list_candidates(expert_space(), p, host_profile(),
                                    choose_expert_tiles(p, host_profile()), {64, false, ""});
  EXPECT_GT(list.texts.size(), 40u);
  for (const std::string& text : list.texts) {
    const auto c = parse<ExpertTileConfig>(text);
    ASSERT_TRUE(c);
    EXPECT_TRUE(is_runnable(expert_space(), p, *c, test::limits())) << text;
  }
}

}  // namespace
}  // namespace tegula::autotune
