#pragma once
// The verb `assemble`: PTX to cubin by ptxas, with its log read.
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::runtime {

/// An assembler's report on the code it made. Sizes are in bytes; over several kernels in one file,
/// the largest registers, stack, shared memory and barriers, and the sum of the spills.
struct AssembleReport {
  int registers = 0;
  int spill_loads = 0;
  int spill_stores = 0;
  int stack = 0;
  int smem = 0;  ///< static shared memory
  int barriers = 0;
  double tool_ms = 0;                 ///< as the tool tells
  std::vector<std::string> warnings;  ///< lines of the log that are neither statistics nor progress
  std::vector<std::string> codes;     ///< "C7510", ... in the order of the log
  bool serialised = false;  ///< C7510..C7519: wgmma waits or arrivals that the compiler put in
  bool setmaxnreg_ignored = false;  ///< C7504..C7508

  /// No spill, no stack, no C75xx: what every configuration of the library must be.
  bool is_clean() const;
  /// Defects of the code, e.g. "spills 64 bytes; C7510"; empty if it has none.
  std::string defects() const;
};

/// Reads the log of `ptxas -v`, of NVRTC's assembler or of the driver's compiler.
AssembleReport parse_assembler_log(std::string_view log);

struct AssembleJob {
  std::string ptx;
  std::string target;                ///< "sm_90a"
  std::vector<std::string> options;  ///< passed on, e.g. "-lineinfo"
  std::chrono::milliseconds limit = std::chrono::minutes(2);
};

struct Assembled {
  std::vector<char> cubin;
  AssembleReport report;
  std::string log;
  double ms = 0;  ///< wall time, the process's start included
};

/// The assembler: TEGULA_PTXAS, then PATH, then the CUDA toolkits of this machine. Nothing if there
/// is none; a TEGULA_PTXAS that is not an executable file is a DeviceError.
std::optional<std::filesystem::path> find_ptxas();

/// The text of the error for a machine without ptxas.
std::string missing_ptxas_text();

/// PTX to cubin. Throws DeviceError where ptxas is missing, crashes or exceeds its time limit, and
/// InternalError where it refuses the PTX (we emitted it): the message holds its first complaint,
/// the reproducer a command to replay.
Assembled assemble(const AssembleJob& job);

}  // namespace tegula::runtime
