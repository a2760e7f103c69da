// Winners that come with the library: from a store through bench/ship_winners.py to a look-up.
#include "autotune/store/shipped_winners.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "autotune/attention/backward_space.h"
#include "autotune/attention/space.h"
#include "autotune/experts/space.h"
#include "autotune/matmul/space.h"
#include "autotune/rows/space.h"
#include "autotune/store/store_text.h"
#include "autotune/store/winner_table.h"
#include "tests/unit/autotune/store/store_fixture.h"

namespace tegula::autotune::shipped_winners_test {
namespace {

class ShippedWinners : public StoreTest {
 protected:
  std::filesystem::path shipped() const { return folder_ / "shipped"; }
  int run_tool() const {
    const std::string tool = std::string(TEGULA_SOURCE_DIR) + "/bench/ship_winners.py";
    return std::system(("python3 " + tool + " " + (folder_ / "tuning.db").string() + " --to " +
                        shipped().string() + " > /dev/null")
                           .c_str());
  }
  static Winner shippable(int i) {
    Winner w = winner_of(i);
    w.key.numerics = kSameBits;
    return w;
  }
};

TEST_F(ShippedWinners, GoFromAStoreToALookUp) {
  Winner of_user = shippable(4), any_bits = shippable(5), unsure = shippable(6);
  of_user.key.family = "kernel mine", any_bits.key.numerics = kAnyBits, unsure.ratio_high = 1.01;
  {
    TuningStore store(options());
    for (int i = 0; i < 4; ++i) store.publish(shippable(i));
    for (const Winner& w : {of_user, any_bits, unsure}) store.publish(w);
  }
  ASSERT_EQ(run_tool(), 0);
  StoreOptions in_memory = options();
  in_memory.folder.clear();
  TuningStore empty(std::move(in_memory));
  WinnerTable table(empty, shipped());
  EXPECT_EQ(table.find(shippable(2).key)->config, shippable(2).config);
  EXPECT_EQ(table.family(shippable(0).key)->size(), 4u);
  for (const Winner& w : {of_user, any_bits, unsure}) EXPECT_EQ(table.find(w.key), std::nullopt);
  TuningKey other = shippable(2).key;
  other.version = 2;
  EXPECT_EQ(table.find(other), std::nullopt) << "an axis has changed its meaning";
  // A winner of the user's own goes before.
  Winner own = shippable(2);
  own.config = "own";
  table.publish(own);
  EXPECT_EQ(table.find(own.key)->config, "own");
  table.refresh();
  EXPECT_EQ(table.find(own.key)->config, "own");
  ASSERT_EQ(run_tool(), 0) << "again: the same files";
  EXPECT_EQ(shipped_winners(shipped(), own.key.device, "matmul", 1).size(), 4u);
}

TEST_F(ShippedWinners, DamagedLinesAreIgnored) {
  const Winner w = shippable(1);
  const auto file = shipped() / file_name_of(w.key.device) / "matmul.jsonl";
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << "{}\n" << line_of(w) << "\n" << line_of(w).substr(0, 40) << "\nx\n";
  EXPECT_THAT(shipped_winners(shipped(), w.key.device, "matmul", 1), ::testing::ElementsAre(w));
  EXPECT_TRUE(shipped_winners(shipped(), "another", "matmul", 1).empty());
}

template <class P, class C>
bool is_row_of(const Space<P, C>& space, const Winner& w) {
  const auto problem = parse<P>(w.key.problem);
  const auto config = parse<C>(w.config);
  const Limits h100 = limits_of(*find_profile({"NVIDIA H100 80GB HBM3", 90, 132, 3350}).profile);
  return problem && config && is_runnable(space, *problem, *config, h100);
}

/// The files of this tree: a row that no call could use does not ship.
TEST(ShippedFiles, HaveRowsOfTheirFamilies) {
  const std::filesystem::path folder =
      std::filesystem::path(TEGULA_SOURCE_DIR) / "autotune/winners";
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".jsonl") continue;
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    for_each_line(text.str(), [&](std::string_view line) {
      const auto w = row_of<Winner>(line);
      ASSERT_TRUE(w) << line;
      EXPECT_EQ(file.path(),
                folder / file_name_of(w->key.device) / (file_name_of(w->key.family) + ".jsonl"));
      const std::string& family = w->key.family;
      EXPECT_TRUE(family == "attention_tiles"      ? is_row_of(attention_space(), *w)
                  : family == "attention_split_kv" ? is_row_of(split_kv_space(), *w)
                  : family == "attention_backward" ? is_row_of(attention_backward_space(), *w)
                  : family == "moe_experts"        ? is_row_of(expert_space(), *w)
                  : family == "rows"               ? is_row_of(row_space(), *w)
                                                   : is_row_of(matmul_space(), *w))
          << line;
    });
  }
}

}  // namespace
}  // namespace tegula::autotune::shipped_winners_test
