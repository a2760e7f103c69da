#include "tegula/error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace tegula::error_test {
namespace {

TEST(Diagnostic, PrintsPlaceCodeNotesAndHint) {
  const Diagnostic d{
      .code = "T0207",
      .message = "dot: inner sizes differ: a is 64x32, b is 64x64",
      .loc = {"attention.cpp", 88, 15},
      .notes = {{{"attention.cpp", 80, 3}, "b was made here by load"}, {{}, "in kernel flash"}},
      .hint = "transpose b"};
  EXPECT_EQ(d.str(),
            "attention.cpp:88:15: error T0207: dot: inner sizes differ: a is 64x32, b is 64x64\n"
            "  note: attention.cpp:80: b was made here by load\n"
            "  note: in kernel flash\n"
            "  hint: transpose b");
}

TEST(Diagnostic, OmitsUnknownParts) {
  EXPECT_EQ((Diagnostic{.code = "", .message = "m", .loc = {}, .notes = {}, .hint = ""}).str(),
            "error: m");
  EXPECT_EQ(
      (Diagnostic{.code = "", .message = "m", .loc = {"f.cpp", 3}, .notes = {}, .hint = ""}).str(),
      "f.cpp:3: error: m");
}

TEST(CompileError, CarriesEveryDiagnostic) {
  const CompileError e(
      std::vector<Diagnostic>{{.code = "A", .message = "one", .loc = {}, .notes = {}, .hint = ""},
                              {.code = "B", .message = "two", .loc = {}, .notes = {}, .hint = ""}});
  EXPECT_STREQ(e.what(), "error A: one\nerror B: two");
  EXPECT_EQ(e.diagnostics().size(), 2u);
  EXPECT_EQ(e.diagnostic().code, "A");
}

TEST(CompileError, ShowsTheSourceLineWhereItCanBeRead) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / "tegula_error_test_source.cpp";
  std::ofstream(file) << "int a;\n\tz(i) = x(j) + y(i);\n";
  const std::string name = file.string();
  const auto text = [&](std::uint32_t line, std::uint32_t column) {
    const Diagnostic d{.code = "T0001",
                       .message = "no",
                       .loc = {name.c_str(), line, column},
                       .notes = {},
                       .hint = "else"};
    EXPECT_EQ(d.str(), name + ":" + std::to_string(line) +
                           (column == 0 ? "" : ":" + std::to_string(column)) +
                           ": error T0001: no\n  hint: else");
    const std::string whole = CompileError(d).what();
    return whole.substr(whole.find("T0001"));
  };
  EXPECT_EQ(text(2, 9),
            "T0001: no\n    2 | \tz(i) = x(j) + y(i);\n      | \t       ^\n  hint: else");
  EXPECT_EQ(text(1, 1), "T0001: no\n    1 | int a;\n      | ^\n  hint: else");
  // Another version of the file was compiled, or the column is not known.
  EXPECT_EQ(text(1, 40), "T0001: no\n  hint: else");
  EXPECT_EQ(text(9, 1), "T0001: no\n  hint: else");
  EXPECT_EQ(text(2, 0), "T0001: no\n  hint: else");
  std::filesystem::remove(file);
  EXPECT_EQ(text(2, 9), "T0001: no\n  hint: else");
}

TEST(CompileError, NeedsADiagnostic) {
  EXPECT_THROW(CompileError(std::vector<Diagnostic>{}), InternalError);
}

TEST(DeviceError, NamesTheDriversCode) {
  const DeviceError e("cuLaunchKernel: bad grid", 1, "CUDA_ERROR_INVALID_VALUE");
  EXPECT_STREQ(e.what(), "error: cuLaunchKernel: bad grid (CUDA_ERROR_INVALID_VALUE, 1)");
  EXPECT_EQ(e.code(), 1);
  EXPECT_STREQ(DeviceError("libcuda.so.1 not found").what(), "error: libcuda.so.1 not found");
  // The same error, placed.
  Diagnostic placed{"T2004", e.diagnostic().message, {intern("k.cpp"), 3, 0}, {}, "wait"};
  EXPECT_STREQ(DeviceError(placed, 1, e.name()).what(),
               "k.cpp:3: error T2004: cuLaunchKernel: bad grid (CUDA_ERROR_INVALID_VALUE, 1)\n"
               "  hint: wait");
}

TEST(InternalError, GivesTheReproducer) {
  const InternalError e("verifier failed after cse", "tegula opt repro.tir");
  EXPECT_STREQ(e.what(),
               "internal error: verifier failed after cse\n  reproduce: tegula opt repro.tir");
  EXPECT_EQ(e.reproducer(), "tegula opt repro.tir");
}

TEST(Intern, GivesOnePointerPerText) {
  const std::string a = "kernel.cpp";
  const char* first = intern(a);
  EXPECT_EQ(first, intern(std::string("kernel.cpp")));
  EXPECT_NE(first, a.c_str());
  EXPECT_NE(first, intern("other.cpp"));
}

TEST(Intern, IsSafeFromManyThreads) {
  constexpr int kThreads = 4, kTexts = 500;
  std::vector<std::vector<const char*>> seen(kThreads, std::vector<const char*>(kTexts));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTexts; ++i) seen[t][i] = intern("thread text " + std::to_string(i));
    });
  }
  for (std::thread& t : threads) t.join();
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(seen[t], seen[0]);
  EXPECT_STREQ(seen[0][499], "thread text 499");
}

}  // namespace
}  // namespace tegula::error_test
