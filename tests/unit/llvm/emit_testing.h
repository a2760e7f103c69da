#pragma once
// What the emitter's tests share: text in, PTX out, and ptxas's opinion of it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "codegen/emit.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/text.h"

namespace tegula::testing {

inline ir::Kernel kernel_of(std::string_view text, std::string_view name = "<test>") {
  ir::Kernel k = ir::parse(text, name);
  for (const Diagnostic& d : ir::verify(k)) ADD_FAILURE() << d.str();
  return k;
}

inline std::string ptx_of(std::string_view text) { return codegen::emit_llvm(kernel_of(text)).ptx; }

/// Occurrences of `needle`.
inline int count(std::string_view text, std::string_view needle) {
  int n = 0;
  for (std::size_t at = text.find(needle); at != text.npos;
       at = text.find(needle, at + needle.size()))
    ++n;
  return n;
}

/// The assembler, or an empty path where there is none.
inline std::filesystem::path find_ptxas() {
  std::vector<std::filesystem::path> folders;
  if (const char* path = std::getenv("PATH"))
    for (std::string_view folder : split(path, ':')) folders.emplace_back(folder);
  if (const char* home = std::getenv("CUDA_HOME"))
    folders.emplace_back(std::filesystem::path(home) / "bin");
  folders.emplace_back("/usr/local/cuda/bin");
  if (const char* given = std::getenv("TEGULA_PTXAS")) return given;
  for (const auto& folder : folders)
    if (std::filesystem::exists(folder / "ptxas")) return folder / "ptxas";
  return {};
}

struct Assembled {
  bool ok = false;
  std::string log;
  /// No spills, no stack, and none of the C75xx remarks that announce serialised wgmma or an
  /// ignored setmaxnreg.
  bool is_clean() const {
    return ok && log.find("C75") == log.npos &&
           count(log, "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") == 1;
  }
};

inline Assembled assemble(const std::string& ptx, const std::string& target) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("tegula_emit_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  write_file(folder / "k.ptx", ptx);
  const std::string command = find_ptxas().string() + " -v -arch=" + target + " " +
                              (folder / "k.ptx").string() + " -o " + (folder / "k.cubin").string() +
                              " 2>&1";
  Assembled out;
  FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe))
    out.log.append(buffer, n);
  out.ok = ::pclose(pipe) == 0;
  std::filesystem::remove_all(folder);
  return out;
}

/// Fails unless the PTX assembles cleanly; says so where there is no assembler.
inline void expect_clean(const std::string& ptx, const std::string& target, std::string_view what) {
  if (find_ptxas().empty())
    GTEST_SKIP() << "no ptxas on this machine: " << what << " was not assembled";
  const Assembled a = assemble(ptx, target);
  EXPECT_TRUE(a.is_clean()) << what << "\n" << a.log;
}

}  // namespace tegula::testing
