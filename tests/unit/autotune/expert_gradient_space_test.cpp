// The space of the GEMMs of experts' gradients: sound, and what the model takes.
#include "autotune/experts/gradient_space.h"

#include <gtest/gtest.h>

#include "autotune/calls/candidate_list.h"
#include "tests/unit/autotune/sound_space.h"

namespace tegula::autotune::expert_gradient_space_test {
namespace {

std::vector<ExpertGradientProblem> problems() {
  std::vector<ExpertGradientProblem> all;
  for (const std::int64_t rows : {0, 1, 64, 65, 1000})
    for (const std::int64_t columns : {64, 1024, 1536, 7168}) {
      all.push_back({rows, columns, 2048, 64, ExpertGradient::rows});
      all.push_back({2048, columns, rows, 64, ExpertGradient::weights});
    }
  return all;
}

TEST(ExpertGradientSpace, IsSound) { test::expect_sound(expert_gradient_space(), problems()); }

TEST(ExpertGradientSpace, TheModelTakesOneByRowsAndColumns) {
  const auto expect = [](const ExpertGradientProblem& p, int bm, int bn) {
    const ExpertTileConfig c = choose_gradient_tiles(p, host_profile());
    EXPECT_EQ(c, (ExpertTileConfig{.bm = bm, .bn = bn})) << text_of(p) << "\n" << text_of(c);
  };
  expect({64, 7168, 2048, 64, ExpertGradient::rows}, 64, 128);
  expect({65, 7168, 2048, 64, ExpertGradient::rows}, 128, 256);
  expect({65, 1000, 2048, 64, ExpertGradient::rows}, 128, 128);
  expect({65, 768, 2048, 64, ExpertGradient::rows}, 128, 256);
  expect({2048, 7168, 4, 64, ExpertGradient::weights}, 128, 256);
  expect({2048, 1000, 4, 64, ExpertGradient::weights}, 128, 128);
}

TEST(ExpertGradientSpace, TheTunerTriesRunnableConfigurations) {
  const ExpertGradientProblem p{200, 4096, 2048, 64, ExpertGradient::rows};
  const ExpertTileConfig model = choose_gradient_tiles(p, host_profile());
  const auto list =
      list_candidates(expert_gradient_space(), p, host_profile(), model, {64, false, ""});
  EXPECT_GT(list.texts.size(), 10u);
  for (const std::string& text : list.texts) {
    const auto c = parse<ExpertTileConfig>(text);
    ASSERT_TRUE(c);
    EXPECT_TRUE(is_runnable(expert_gradient_space(), p, *c, test::limits())) << text;
  }
}

}  // namespace
}  // namespace tegula::autotune::expert_gradient_space_test
