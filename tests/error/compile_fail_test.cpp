// Programs the host compiler must refuse, with a message a person can act on. Each file also holds
// the right way, which must compile, so that a file broken for another reason does not pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

struct Outcome {
  int status;
  std::string output;
};

Outcome compile(const std::filesystem::path& file, const std::string& flags) {
  const std::string root = TEGULA_SOURCE_DIR;
  const char* compiler = std::getenv("CXX");
  const std::string command = std::string(compiler && *compiler ? compiler : "c++") +
                              " -std=c++20 -fsyntax-only -I" + root + "/support/include -I" + root +
                              "/runtime/include -I" + root + "/ir/include -I" + root +
                              "/dsl/include " + flags + " " + file.string() + " 2>&1";
  Outcome out{0, ""};
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    out.output.append(buffer.data(), n);
  out.status = pclose(pipe);
  return out;
}

class CompileFail : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(CompileFail, StaticAssertNamesTheMistake) {
  std::ifstream in(GetParam());
  std::string line;
  ASSERT_TRUE(std::getline(in, line) && line.starts_with("// expect: "));
  const Outcome right = compile(GetParam(), "");
  EXPECT_EQ(right.status, 0) << right.output;
  const Outcome wrong = compile(GetParam(), "-DWRONG");
  EXPECT_NE(wrong.status, 0) << "it compiles";
  EXPECT_NE(wrong.output.find(line.substr(11)), std::string::npos) << wrong.output;
}

std::vector<std::filesystem::path> cases() {
  std::vector<std::filesystem::path> out;
  for (const auto& e :
       std::filesystem::directory_iterator(TEGULA_SOURCE_DIR "/tests/error/compile_fail"))
    if (e.path().extension() == ".cpp") out.push_back(e.path());
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(Language, CompileFail, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.stem().string(); });

TEST(CompileFailFolder, IsNotEmpty) { EXPECT_GE(cases().size(), 8u); }

}  // namespace
