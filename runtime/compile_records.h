#pragma once
// Records of the kernels that a process compiled or found, for compile_report().
#include <cstddef>
#include <cstdint>
#include <string>

#include "tegula/report.h"

namespace tegula::runtime {

/// Origin of a kernel's code.
enum class CodeSource : std::uint8_t { bundle, disk, compiled };

struct CompileRecord {
  std::string kernel, target;
  std::string by;  ///< back end of the code
  CodeSource source = CodeSource::compiled;
  double ms = 0;  ///< from the key to the machine code
};

/// Maximum number of records kept. Older ones only contribute to the counts and the total time.
inline constexpr std::size_t kMaxCompileRecords = 4096;

/// Keeps a record. Safe to call on any thread.
void record_compile(CompileRecord record);

}  // namespace tegula::runtime
