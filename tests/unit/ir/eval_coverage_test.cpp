// Walks the op table: every op that the interpreter executes stands in the text of at least one of
// its tests.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "ir/op.h"
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir {
namespace {

/// Words of the tests' IR texts that something an op is followed by stands behind: operands,
/// attributes, types, regions or the end of the line. Comments do not count.
std::set<std::string> ops_in_the_tests() {
  std::set<std::string> words;
  const std::filesystem::path folder = std::filesystem::path(TEGULA_SOURCE_DIR) / "tests/unit/ir";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("eval_") || file == "eval_coverage_test.cpp") continue;
    std::ifstream in(entry.path());
    static const std::regex op("([a-z_0-9]+)( (%|\\[|:|\\{|\\})|\\s*$)");
    for (std::string line; std::getline(in, line);) {
      line.resize(std::min(line.size(), line.find("//")));
      for (std::sregex_iterator it(line.begin(), line.end(), op), end; it != end; ++it)
        words.insert((*it)[1].str());
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
}  // namespace tegula::ir
