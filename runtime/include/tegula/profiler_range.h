#pragma once

namespace tegula {

/// A range of NVTX (NVIDIA Tools Extension) on the calling thread during the object's lifetime.
/// Profilers such as Nsight Systems show it next to the work of the GPU. Calls of the library and
/// launches of kernels are ranges with their names.
///
/// Has no effect unless TEGULA_NVTX=1 is set and a profiler has set NVTX_INJECTION64_PATH to the
/// library that receives ranges; this is decided at the first range of the process. The constructor
/// reads `name` at once. Safe to use on many threads.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

  /// Returns true if a profiler receives ranges.
  static bool is_heard();

 private:
  bool is_open_;
};

}  // namespace tegula
