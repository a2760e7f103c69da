#pragma once
// A library opened at run time from a list of places, remembering why each place failed.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::runtime {

/// Folders in which CUDA toolkits put `sub` ("bin" or "lib64"): $CUDA_HOME, /usr/local/cuda, then
/// /usr/local/cuda-* with the newest version first.
std::vector<std::string> toolkit_folders(std::string_view sub);

/// Files matching a glob pattern, sorted.
std::vector<std::string> glob_files(const std::string& pattern);

/// The file that `code`, an address of a function, was loaded from; the program itself is
/// /proc/self/exe.
std::filesystem::path file_of(const void* code);

/// Owns nothing: a loaded library stays loaded, because code of it may run until the process ends.
class SharedLibrary {
 public:
  /// Opens the first candidate that loads. A name without '/' is searched as the loader does.
  static SharedLibrary open(const std::vector<std::string>& candidates);

  explicit operator bool() const { return handle_ != nullptr; }
  /// The address of `name`, or null.
  void* symbol(const char* name) const;
  /// The file that was loaded (absolute where the loader tells), or empty.
  const std::string& path() const { return path_; }
  /// The places tried and the reason why each failed, one a line.
  const std::string& failures() const { return failures_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
  std::string failures_;
};

}  // namespace tegula::runtime
