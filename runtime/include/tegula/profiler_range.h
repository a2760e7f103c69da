#pragma once

namespace tegula {

/// A range of NVTX, NVIDIA's tools extension, on the calling thread as long as it lives: profilers
/// such as Nsight Systems show it beside the work of the GPU. Calls of the library and launches of
/// kernels are ranges with their names.
///
/// Nothing unless the environment has TEGULA_NVTX=1 and a profiler has said, by
/// NVTX_INJECTION64_PATH, which library takes ranges; decided at the first range of the process.
/// `name` is read at once. May be used on many threads.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

  /// Whether ranges go anywhere.
  static bool is_heard();

 private:
  bool is_open_;
};

}  // namespace tegula
