#pragma once
// The verb `assemble`: translates PTX to a cubin by ptxas and parses its log.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::runtime {

/// An assembler's report on its code. Sizes are in bytes. For several kernels in one file,
/// registers, stack, shared memory and barriers are maxima; spills are totals.
struct AssembleReport {
  int registers = 0;
  int spill_loads = 0;
  int spill_stores = 0;
  int stack = 0;
  int smem = 0;  ///< static shared memory
  int barriers = 0;
  double tool_ms = 0;                 ///< as reported by the tool
  std::vector<std::string> warnings;  ///< lines of the log that are neither statistics nor progress
  std::vector<std::string> codes;     ///< "C7510", ... in the order of the log
  bool serialised = false;          ///< C7510..C7519: the compiler inserted wgmma waits or arrivals
  bool setmaxnreg_ignored = false;  ///< C7504..C7508

  /// Returns the bytes that a thread stores and loads again because registers run short.
  int spilled_bytes() const { return std::max(spill_stores, spill_loads); }
  /// Returns true if the code has no spills, no stack and no C75xx codes, as is required of the
  /// library's configurations.
  bool is_clean() const;
  /// Returns the defects of the code, e.g. "spills 64 bytes; C7510"; "" if it has none.
  std::string defects() const;
};

/// Parses the log of `ptxas -v`, of NVRTC's assembler or of the driver's compiler.
AssembleReport parse_assembler_log(std::string_view log);

struct AssembleJob {
  std::string ptx;
  std::string target;                ///< "sm_90a"
  std::vector<std::string> options;  ///< further command-line options, e.g. "-lineinfo"
  std::chrono::milliseconds limit = std::chrono::minutes(2);
  std::string kernel = {};  ///< name, for errors
};

struct Assembled {
  std::vector<char> cubin;
  AssembleReport report;
  std::string log;
  double ms = 0;  ///< wall time, including the start of the process
};

/// Returns the assembler: TEGULA_PTXAS, else one on PATH, else one of the CUDA toolkits of this
/// machine; nothing if none is found. Throws DeviceError if TEGULA_PTXAS is not an executable file.
std::optional<std::filesystem::path> find_ptxas();

/// Returns the text of the error for a machine without ptxas.
std::string missing_ptxas_text();
[[noreturn]] void throw_missing_ptxas();

/// Assembles PTX to a cubin. Throws DeviceError if ptxas is missing, crashes or exceeds its time
/// limit. Throws InternalError if ptxas rejects the PTX (we emitted it): the message contains the
/// first error, the reproducer a command that replays it.
Assembled assemble(const AssembleJob& job);

}  // namespace tegula::runtime
