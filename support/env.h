#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Typed values of the environment variables in env.def, which are read once.
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
  /// Reads every row; an unset or empty variable gives the fallback. Throws DeviceError for a value
  /// that its row does not allow.
  static Env read(const Lookup& lookup);
};

/// Returns this process's environment as it was at the first call, or the current EnvOverride.
const Env& env();

/// Replaces the result of env() during its lifetime; for tests, on one thread.
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

/// Returns the names of variables that begin with TEGULA_ and have no row in env.def, sorted: they
/// are misspelt, or belong to another version. `entries` contains NAME=VALUE strings, as
/// environment_entries() returns them.
std::vector<std::string> unknown_variables(const std::vector<std::string>& entries);
std::vector<std::string> environment_entries();
/// Throws DeviceError (T2006) for an unknown variable whose name differs from that of a row in one
/// letter, or in two letters of a longer name: its value would be ignored silently. Other names may
/// belong to another program or version.
void refuse_misspelt(const std::vector<std::string>& entries);

/// Returns the table as Markdown (docs/env.md).
std::string env_markdown();

}  // namespace tegula
