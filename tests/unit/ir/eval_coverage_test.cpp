// Walks the op table: every op that the interpreter executes is in the text of at least one of
// its tests.
#include <algorithm>
#include <filesystem>
#include <set>

#include "ir/op.h"
#include "support/text.h"
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_coverage_test {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_0123456789";

/// An op's mnemonic is followed by operands, attributes, types, regions or the end of the line.
bool can_follow_an_op(std::string_view rest) {
  if (trim(rest).empty()) return true;
  return rest[0] == ' ' && rest.size() > 1 && std::string_view("%[:{}").find(rest[1]) != rest.npos;
}

/// Words of the tests' IR texts that may be ops. Comments do not count.
std::set<std::string> ops_in_the_tests() {
  std::set<std::string> words;
  const std::filesystem::path folder = std::filesystem::path(TEGULA_SOURCE_DIR) / "tests/unit/ir";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("eval_") || file == "eval_coverage_test.cpp") continue;
    const std::string text = read_file(entry.path());
    for (std::string_view line : split(text, '\n')) {
      line = line.substr(0, line.find("//"));
      for (std::size_t at = 0; (at = line.find_first_of(kLetters, at)) != line.npos;) {
        const std::size_t end = std::min(line.size(), line.find_first_not_of(kLetters, at));
        if (can_follow_an_op(line.substr(end))) words.emplace(line.substr(at, end - at));
        at = end;
      }
    }
  }
  return words;
}

TEST(EvalCoverage, EveryExecutedOpHasATest) {
  const auto tested = ops_in_the_tests();
  for (const OpInfo& op : all_ops()) {
    const bool is_executed =
        op.family == Family::Structure || op.family == Family::Tile || op.family == Family::Machine;
    if (!is_executed) continue;  // elementwise ops: eval_scalar_test; simt ops: the simulator
    EXPECT_TRUE(tested.contains(std::string(op.mnemonic))) << "no eval test of " << op.mnemonic;
  }
}

}  // namespace
}  // namespace tegula::ir::eval_coverage_test
