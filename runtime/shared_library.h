#pragma once
// A library opened at run time from a list of places; records why each place failed.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::runtime {

/// Returns the folders in which CUDA toolkits put `sub` ("bin" or "lib64"): $CUDA_HOME,
/// /usr/local/cuda, then /usr/local/cuda-* with the newest version first.
std::vector<std::string> toolkit_folders(std::string_view sub);

/// Returns the files that match a glob pattern, sorted.
std::vector<std::string> glob_files(const std::string& pattern);

/// Returns the file that `code`, the address of a function, was loaded from; for the program itself
/// that is /proc/self/exe.
std::filesystem::path file_of(const void* code);

/// Never unloads the library, because its code may run until the process ends.
class SharedLibrary {
 public:
  /// Opens the first candidate that loads. A name without '/' is looked up as the loader does.
  static SharedLibrary open(const std::vector<std::string>& candidates);

  explicit operator bool() const { return handle_ != nullptr; }
  /// Returns the address of `name`, or null.
  void* symbol(const char* name) const;
  /// Returns the loaded file (absolute if the loader reports it), or "".
  const std::string& path() const { return path_; }
  /// Returns the places tried and the reason why each failed, one per line.
  const std::string& failures() const { return failures_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
  std::string failures_;
};

}  // namespace tegula::runtime
