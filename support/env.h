#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// The environment, typed: one row a variable in env.def, read once.
namespace tegula {

struct Env {
  using Text = std::string;
  using Path = std::filesystem::path;
  using Flag = bool;
  using Number = std::int64_t;
  using List = std::vector<std::string>;
  using Choice = std::string;

#define TEGULA_ENV(Kind, field, fallback, name, values, doc) Kind field = fallback;
#include "support/env.def"
#undef TEGULA_ENV

  using Lookup = std::function<std::optional<std::string>(const char* name)>;
  /// Reads every row; an unset or empty variable gives the fallback. A value its row does not allow
  /// is a DeviceError.
  static Env read(const Lookup& lookup);
};

/// This process's environment as it was at the first call.
const Env& env();

/// Replaces what env() returns during its life; for tests, on one thread.
class EnvOverride {
 public:
  explicit EnvOverride(Env replacement);
  ~EnvOverride();
  EnvOverride(const EnvOverride&) = delete;
  EnvOverride& operator=(const EnvOverride&) = delete;

 private:
  Env mine_;
  const Env* before_;
};

/// Names of variables that begin with TEGULA_ and have no row: misspelt, or of another version.
/// `entries` holds NAME=VALUE texts; the doctor passes environment_entries().
std::vector<std::string> unknown_variables(const std::vector<std::string>& entries);
std::vector<std::string> environment_entries();

/// The table as Markdown (docs/env.md).
std::string env_markdown();

}  // namespace tegula
