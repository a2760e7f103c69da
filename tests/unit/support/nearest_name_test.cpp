#include "support/nearest_name.h"

#include <gtest/gtest.h>

namespace tegula::nearest_name_test {
namespace {

const std::vector<std::string> kNames{"causal", "sliding_window", "window", "doctor"};

TEST(NearestName, IsFewLettersAway) {
  EXPECT_EQ(nearest_name("causl", kNames), "causal");
  EXPECT_EQ(nearest_name("dotcor", kNames), "doctor");
  EXPECT_EQ(nearest_name("windows", kNames), "window");
}

TEST(NearestName, ContainsTheWord) { EXPECT_EQ(nearest_name("sliding", kNames), "sliding_window"); }

TEST(NearestName, IsEmptyIfNoNameIsNear) {
  EXPECT_EQ(nearest_name("bundle", kNames), "");
  EXPECT_EQ(nearest_name("w", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("causal", {}), "");
}

TEST(EditsBetween, CountsInsertedRemovedAndReplacedLetters) {
  EXPECT_EQ(edits_between("", "abc"), 3u);
  EXPECT_EQ(edits_between("kitten", "sitting"), 3u);
  EXPECT_EQ(edits_between("same", "same"), 0u);
}

}  // namespace
}  // namespace tegula::nearest_name_test
