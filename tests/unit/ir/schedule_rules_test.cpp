// Every rule of ir/schedule/rules.def is tripped by some file test.
#include <gtest/gtest.h>

#include <filesystem>

#include "ir/schedule/reason.h"
#include "support/text.h"

namespace tegula::ir::schedule_rules_test {
namespace {

TEST(ScheduleRules, EachIsTripped) {
  std::string texts;
  const auto folder = std::filesystem::path(TEGULA_SOURCE_DIR) / "tests/filetests/schedule";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    texts += read_file(entry.path());
  for (const RuleRow& rule : all_rules())
    EXPECT_NE(texts.find("error " + std::string(rule.id) + ": "), std::string::npos)
        << rule.id << ": refused when " << rule.doc;
}

TEST(ScheduleRules, AReasonNamesItsLines) {
  const Reason one{Rule::G1, "b needs a", {}, Loc("k.cpp", 3), Loc("k.cpp", 2)};
  EXPECT_EQ(one.str(), "k.cpp:3: G1: b needs a (k.cpp:2)");
  EXPECT_EQ((Reason{Rule::R1, "too large"}.str()), "R1: too large");
}

}  // namespace
}  // namespace tegula::ir::schedule_rules_test
