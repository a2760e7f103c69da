#pragma once
// A child process with its output captured and a time limit.
#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace tegula::runtime {

/// A file that exists in memory only. A child process that inherits it can open it as `path()`.
class MemoryFile {
 public:
  MemoryFile(const char* label, std::span<const char> content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// Returns a path that is valid in the parent and in the child.
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  std::vector<char> read_all() const;

 private:
  int descriptor_;
};

struct ProcessResult {
  int exit_code = -1;      ///< -1 if a signal or the time limit ended it
  int signal = 0;          ///< the signal that ended it, or 0
  bool timed_out = false;  ///< killed at the time limit
  std::string output;      ///< stdout and stderr together

  bool ok() const { return exit_code == 0; }
  /// Returns "exit code 2", "signal 11" or "no answer within 60 s".
  std::string how_it_ended() const;
};

/// Runs argv[0] with the given inherited files and waits for it. Throws DeviceError if it cannot be
/// started.
ProcessResult run_process(const std::vector<std::string>& argv,
                          std::span<const MemoryFile* const> inherited,
                          std::chrono::milliseconds limit);

}  // namespace tegula::runtime
