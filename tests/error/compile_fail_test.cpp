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

Outcome run(const std::string& command) {
  Outcome out{0, ""};
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    out.output.append(buffer.data(), n);
  out.status = pclose(pipe);
  return out;
}

/// Returns the compiler and the flags of all its commands. GCC finds the precompiled header in the
/// first folder; other compilers read the header of the source tree.
std::string compiler(const std::filesystem::path& precompiled) {
  const char* cxx = std::getenv("CXX");
  std::string command =
      std::string(cxx && *cxx ? cxx : "c++") + " -std=c++20 -I" + precompiled.string();
  for (const char* layer : {"support", "runtime", "ir", "dsl", "autotune", "kernels"})
    command += std::string(" -I" TEGULA_SOURCE_DIR "/") + layer + "/include";
  return command;
}

class CompileFail : public testing::TestWithParam<std::filesystem::path> {
 protected:
  /// Precompiles tegula.h, which takes most of the time of every case.
  static void SetUpTestSuite() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tegula-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::filesystem::create_directory(folder_ / "tegula");
    const Outcome header = run(
        compiler(folder_) + " -x c++-header " TEGULA_SOURCE_DIR "/dsl/include/tegula/tegula.h -o " +
        (folder_ / "tegula/tegula.h.gch").string());
    ASSERT_EQ(header.status, 0) << header.output;
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static Outcome compile(const std::filesystem::path& file, const std::string& flags) {
    return run(compiler(folder_) + " -fsyntax-only " + flags + " " + file.string());
  }

 private:
  static inline std::filesystem::path folder_;
};

/// The first lines of a file have the messages for WRONG = 1, 2, ..
TEST_P(CompileFail, StaticAssertNamesTheMistake) {
  const Outcome right = compile(GetParam(), "");
  EXPECT_EQ(right.status, 0) << right.output;
  std::ifstream in(GetParam());
  int mistakes = 0;
  for (std::string line; std::getline(in, line) && line.starts_with("// expect: ");) {
    const Outcome wrong = compile(GetParam(), "-DWRONG=" + std::to_string(++mistakes));
    EXPECT_NE(wrong.status, 0) << "it compiles";
    EXPECT_NE(wrong.output.find(line.substr(11)), std::string::npos) << wrong.output;
  }
  EXPECT_GT(mistakes, 0);
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
