// The configuration space of experts' GEMMs: its soundness, and the choices of the cost model.
#include "autotune/experts/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "autotune/calls/candidate_list.h"
#include "autotune/experts/batch_cost.h"
#include "tests/unit/autotune/sound_space.h"

namespace tegula::autotune::expert_space_test {
namespace {

std::vector<ExpertProblem> expert_problems() {
  std::vector<ExpertProblem> all;
  for (const std::int64_t rows : {0, 1, 16, 20, 64, 65, 1000})
    for (const std::int64_t columns : {64, 1024, 7168})
      for (const bool is_gated : {false, true})
        all.push_back({rows, columns, 2048, 64, ExpertProduct::up, DType::bf16, is_gated,
                       /*choices=*/rows % 2 * 8});
  for (const DType result : {DType::bf16, DType::f8e4m3})
    for (const bool promotes : {false, true})
      all.push_back(
          {200, 1024, 2048, 64, ExpertProduct::up, DType::f8e4m3, true, 0, result, promotes});
  return all;
}

TEST(ExpertSpace, IsSound) { test::expect_sound(expert_space(), expert_problems()); }

/// Returns the tiles of both products of a layer as text: swapped if outputs are the MMA's rows.
struct Model {
  std::int64_t h, i, experts, k;

  std::string tiles(std::int64_t tokens) const {
    const std::int64_t rows = tokens * k, of = std::min(rows, experts);
    const auto text = [&](const ExpertProblem& p) {
      const ExpertTileConfig c = choose_expert_tiles(p, host_profile());
      ExpertTileConfig usual;
      usual.bm = c.bm, usual.bn = c.bn, usual.swap_ab = c.swap_ab, usual.gathers = c.gathers;
      usual.stages = c.stages, usual.multicast = c.multicast;
      EXPECT_EQ(c, usual) << text_of(c);
      return (c.swap_ab ? "swapped " : "") + std::to_string(c.bm) + "x" + std::to_string(c.bn) +
             (c.gathers ? " gathered" : "") + (c.multicast ? " multicast" : "") +
             (c.stages != 0 ? " stages " + std::to_string(c.stages) : "");
    };
    return text({rows / experts, i, h, of, ExpertProduct::up, DType::bf16, true, k}) + ", " +
           text({rows / experts, h, i, of, ExpertProduct::down});
  }
};

/// Most experts have one or two tiles, as long as a column of tiles costs as much; experts with
/// many rows have the tiles that read least.
TEST(ExpertSpace, TheModelTakesTilesByTheirExpectedNumber) {
  const Model mixtral{4096, 14336, 8, 2}, qwen3{2048, 768, 128, 8}, deepseek{7168, 2048, 256, 8};
  EXPECT_EQ(mixtral.tiles(1), "swapped 16x128, swapped 16x64 stages 8");
  EXPECT_EQ(mixtral.tiles(128), "swapped 48x128, swapped 48x128");
  EXPECT_EQ(mixtral.tiles(1024), "swapped 144x128 multicast, swapped 144x128 multicast");
  EXPECT_EQ(mixtral.tiles(4096), "128x128 multicast, 128x256 multicast");
  EXPECT_EQ(mixtral.tiles(16384), "128x128 multicast, 128x256 multicast");
  EXPECT_EQ(qwen3.tiles(1), "swapped 16x64 stages 8, swapped 16x128 stages 8");
  EXPECT_EQ(qwen3.tiles(128), "swapped 16x128, swapped 16x128");
  EXPECT_EQ(qwen3.tiles(1024), "swapped 80x128 gathered, swapped 80x128");
  EXPECT_EQ(qwen3.tiles(4096), "swapped 144x128 gathered, 128x256");
  EXPECT_EQ(qwen3.tiles(16384), "128x128 gathered, 128x256");
  EXPECT_EQ(deepseek.tiles(1), "swapped 16x128, swapped 16x64");
  EXPECT_EQ(deepseek.tiles(128), "swapped 16x128, swapped 16x128");
  EXPECT_EQ(deepseek.tiles(1024), "swapped 48x128, swapped 48x128");
  EXPECT_EQ(deepseek.tiles(4096), "swapped 144x128 gathered, swapped 144x128");
  EXPECT_EQ(deepseek.tiles(16384), "128x128 gathered, 128x256");
}

TEST(ExpertSpace, ExpectedTilesFollowFromMeanAndItsRoot) {
  EXPECT_NEAR(expected_tiles(0, 16), 1, 1e-9);
  EXPECT_NEAR(expected_tiles(128, 128), 1.48, 0.01);  // half of the experts, less those of 128 rows
  EXPECT_NEAR(expected_tiles(128, 160), 1.002, 0.001);
  EXPECT_NEAR(expected_tiles(256, 128), 2.49, 0.01);
  EXPECT_NEAR(expected_tiles(100000, 128), 100000 / 128.0 + 0.5, 0.01);
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
    EXPECT_LE(c.bm, rows == 4 ? 16 : 128) << text_of(c);
  }
}

/// Returns the accumulator elements per thread, including those to which promotion adds.
int elements_of_thread(const ExpertProblem& p) {
  const ExpertTileConfig c = choose_expert_tiles(p, host_profile());
  const int groups = (c.swap_ab ? c.bn : c.bm) / 64, gates = p.is_gated ? 2 : 1;
  return c.bm * c.bn * gates * (p.fp32_promotion ? 2 : 1) / (groups * 128);
}

TEST(ExpertSpace, PromotedSumsAndPackedResultsLeaveRegisters) {
  for (const std::int64_t rows : {64, 128, 256, 1024})
    for (const bool is_gated : {false, true}) {
      ExpertProblem p{rows, 2048, 7168, 128, ExpertProduct::up, DType::f8e4m3, is_gated};
      p.fp32_promotion = true;
      EXPECT_LE(elements_of_thread(p), 160);
      p.fp32_promotion = false, p.result = DType::f8e4m3;
      const ExpertTileConfig c = choose_expert_tiles(p, host_profile());
      EXPECT_LE(c.swap_ab ? c.bm * (is_gated ? 2 : 1) : 0, 96) << text_of(c);
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

/// Tiles that gather their rows may multicast the weights; the model does not choose this until it
/// is measured.
TEST(ExpertSpace, TheTunerTriesGatheredTilesInClusters) {
  const ExpertProblem p{256, 768, 2048, 128, ExpertProduct::up, DType::bf16, true, /*choices=*/8};
  const ExpertTileConfig usual = choose_expert_tiles(p, host_profile());
  EXPECT_TRUE(usual.gathers && !usual.multicast) << text_of(usual);
  ExpertTileConfig paired = usual;
  paired.multicast = true;
  EXPECT_TRUE(is_runnable(expert_space(), p, paired, test::limits()));
  const auto list = list_candidates(expert_space(), p, host_profile(), usual, {64, false, ""});
  EXPECT_THAT(list.texts, testing::Contains(text_of(paired)));
}

}  // namespace
}  // namespace tegula::autotune::expert_space_test
