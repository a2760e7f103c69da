#pragma once
// Compiles CUDA C++ to a cubin by NVRTC, which is loaded at run time. Sources include no header.
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
      targets;  ///< "sm_80", "sm_90", ... as it reports; sm_90a is not listed but works with sm_90
};

/// Returns the NVRTC found, or nothing with the reason in `why`.
std::optional<NvrtcInfo> find_nvrtc(std::string* why = nullptr);

struct NvrtcJob {
  std::string source;
  std::string name = "kernel.cu";    ///< appears in the log
  std::string target;                ///< "sm_90a"
  std::vector<std::string> options;  ///< appended to the standard ones, which they override
};

struct NvrtcResult {
  std::vector<char> cubin;
  AssembleReport report;
  std::string log;
  double ms = 0;
};

/// Compiles the source. Throws DeviceError if NVRTC is missing or too old, and InternalError if it
/// rejects the source (we emitted it): the message contains its log.
NvrtcResult compile_cuda(const NvrtcJob& job);
/// Returns the PTX of the same source without assembling it; throws the same errors. A compilation
/// for a real architecture does not keep PTX, so this one uses the virtual architecture of the same
/// name.
std::string ptx_of_cuda(const NvrtcJob& job);

}  // namespace tegula::runtime
