#pragma once
// Shared by the emitter's tests: from text to PTX, and ptxas's report.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "codegen/emit.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/assemble.h"
#include "support/text.h"

namespace tegula::emit_cases {

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

/// Fails unless the PTX assembles without spills, stack and C75xx; says so where there is no
/// assembler.
inline void expect_sound(const std::string& ptx, const std::string& target, std::string_view what,
                         int registers = 0) {
  if (!runtime::find_ptxas())
    GTEST_SKIP() << "no ptxas on this machine: " << what << " was not assembled";
  const runtime::AssembleReport report =
      runtime::assemble({.ptx = ptx, .target = target, .options = {}}).report;
  EXPECT_TRUE(report.is_clean()) << what << ": " << report.defects();
  if (registers != 0) {
    EXPECT_EQ(report.registers, registers) << what;
  }
}

}  // namespace tegula::emit_cases
