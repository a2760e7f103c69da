#pragma once
// Tests in processes that share a store of winners, and nothing else.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "support/env.h"

namespace tegula::test {

/// Turns of a loop that make a kernel slow enough to lose a race on the simulator.
/// Under a sanitizer, fewer are slow enough.
#ifdef __SANITIZE_ADDRESS__
inline constexpr int kManyTurns = 30;
#else
inline constexpr int kManyTurns = 100;
#endif

/// A folder of its own for the store of every process that the test starts.
class OwnStore : public ::testing::Test {
 protected:
  OwnStore()
      : folder_(std::filesystem::temp_directory_path() /
                ("tegula-tune-" + std::to_string(::getpid()) + "-" + std::to_string(next_++))) {}
  ~OwnStore() override { std::filesystem::remove_all(folder_); }

  /// Runs `f` in a separate process, where it must give true.
  template <class F>
  void in_process(const F& f, const std::string& tune = "off", const std::string& worker = "") {
    const pid_t child = ::fork();
    if (child == 0) {
      Env changed = env();
      changed.cache = "on";
      changed.cache_dir = folder_;
      changed.tune = tune;
      changed.tune_worker = worker;
      const EnvOverride override(changed);
      bool is_fine = false;
      try {
        is_fine = f();
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
      }
      ::_exit(is_fine && !HasFailure() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }

  static inline int next_ = 0;
  std::filesystem::path folder_;
};

}  // namespace tegula::test
