// The main function of every GoogleTest program. A program holds the tests of many files; each file
// runs in a separate process, as tests replace the driver, the environment and other state of a
// process:
//   PROGRAM --file=unit/ir/plan_test.cpp [GOOGLETEST FLAGS]   runs the tests of one file
//   PROGRAM --files                                           lists the files
#include <fnmatch.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace {

constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE

/// Calls `visit(file, test)` for each test: `file` relative to the folder tests/ (the compiler may
/// have received a relative path), `test` as `Suite.Name`.
template <class Visit>
void for_each_test(Visit visit) {
  constexpr std::string_view kTests = "/tests/";
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      std::string file = test.file();
      if (const auto begin = file.rfind(kTests); begin != std::string::npos)
        file.erase(0, begin + kTests.size());
      visit(file, std::string(suite.name()) + "." + test.name());
    }
  }
}

/// Returns true if one of the patterns in `a:b:c` matches `name`.
bool matches(const std::string& patterns, const std::string& name) {
  std::istringstream parts(patterns);
  for (std::string part; std::getline(parts, part, ':');)
    if (fnmatch(part.c_str(), name.c_str(), 0) == 0) return true;
  return false;
}

enum class Selection { some, none_matches, no_such_file };

/// Restricts GoogleTest's filter to the tests of `file`.
Selection select_file(std::string_view file) {
  const std::string given = testing::GTEST_FLAG(filter);
  const auto dash = given.find('-');
  const std::string wanted = given.substr(0, dash);
  const std::string unwanted = dash == std::string::npos ? "" : given.substr(dash + 1);
  bool found = false;
  std::string filter;
  for_each_test([&](const std::string& of, const std::string& test) {
    if (of != file) return;
    found = true;
    if ((wanted.empty() || matches(wanted, test)) && !matches(unwanted, test))
      filter += (filter.empty() ? "" : ":") + test;
  });
  testing::GTEST_FLAG(filter) = filter;
  if (!found) return Selection::no_such_file;
  return filter.empty() ? Selection::none_matches : Selection::some;
}

/// Prints the files that have tests.
void list_files() {
  std::set<std::string> files;
  for_each_test([&](const std::string& file, const std::string&) { files.insert(file); });
  for (const std::string& file : files) std::puts(file.c_str());
}

}  // namespace

int main(int count, char** words) {
  testing::InitGoogleMock(&count, words);
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--files") {
      list_files();
      return EXIT_SUCCESS;
    }
    constexpr std::string_view kFile = "--file=";
    const Selection selection =
        word.starts_with(kFile) ? select_file(word.substr(kFile.size())) : Selection::no_such_file;
    if (selection == Selection::no_such_file) {
      std::fprintf(stderr, "%s: no test in '%s'; --files lists the files\n", words[0], words[i]);
      return EXIT_FAILURE;
    }
    if (selection == Selection::none_matches) {
      std::fprintf(stderr, "%s: the filter matches no test of '%s'\n", words[0], words[i]);
      return kSkipped;
    }
  }
  return RUN_ALL_TESTS();
}
