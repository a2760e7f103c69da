#pragma once
// CUDA C++ to cubin through NVRTC, found at run time. Sources include no header.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/assemble.h"

namespace tegula::runtime {

struct NvrtcVersion {
  int major = 0;
  int minor = 0;
};

/// The NVRTC library of this process.
struct NvrtcInfo {
  std::filesystem::path path;
  NvrtcVersion version;
  std::vector<std::string>
      targets;  ///< "sm_80", "sm_90", ... as it tells; sm_90a is not listed but works with sm_90
};

/// The NVRTC found, or nothing with the reason in `why`.
std::optional<NvrtcInfo> find_nvrtc(std::string* why = nullptr);

struct NvrtcJob {
  std::string source;
  std::string name = "kernel.cu";    ///< appears in the log
  std::string target;                ///< "sm_90a"
  std::vector<std::string> options;  ///< after the standard ones, so that they win
};

struct NvrtcResult {
  std::vector<char> cubin;
  AssembleReport report;
  std::string log;
  double ms = 0;
};

/// Throws DeviceError where NVRTC is missing or too old, and InternalError where it refuses the
/// source (we emitted it): the message holds its log.
NvrtcResult compile_cuda(const NvrtcJob& job);
/// The PTX of the same source, which is not assembled; throws alike. A compilation for a real
/// architecture keeps none, so that this one is for the virtual architecture of the same name.
std::string ptx_of_cuda(const NvrtcJob& job);

}  // namespace tegula::runtime
