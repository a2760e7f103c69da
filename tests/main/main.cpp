// The main function of every GoogleTest program. A program holds the tests of many files; each file
// runs in a process of its own, as tests replace the driver, the environment and other state of a
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

/// Calls `visit(file, test)` for each test, `file` relative to the folder tests/, `test` as
/// `Suite.Name`.
template <class Visit>
void for_each_test(Visit visit) {
  const std::string tests = TEGULA_SOURCE_DIR "/tests/";
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      std::string file = test.file();
      if (const auto begin = file.rfind(tests); begin != std::string::npos)
        file.erase(0, begin + tests.size());
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

/// Restricts GoogleTest's filter to the tests of `file`. Returns false if the file has no test.
bool select_file(std::string_view file) {
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
  testing::GTEST_FLAG(filter) = filter.empty() ? "-*" : filter;
  return found;
}

}  // namespace

int main(int count, char** words) {
  testing::InitGoogleMock(&count, words);
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    constexpr std::string_view kFile = "--file=";
    if (word == "--files") {
      std::set<std::string> files;
      for_each_test([&](const std::string& file, const std::string&) { files.insert(file); });
      for (const std::string& file : files) std::puts(file.c_str());
      return EXIT_SUCCESS;
    }
    if (!word.starts_with(kFile) || !select_file(word.substr(kFile.size()))) {
      std::fprintf(stderr, "%s: no test in '%s'; --files lists the files\n", words[0], words[i]);
      return EXIT_FAILURE;
    }
  }
  return RUN_ALL_TESTS();
}
