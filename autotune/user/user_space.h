#pragma once
// The settings of a user's kernel: what its tune() calls ask for, found by tracing it.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsl/instance.h"

namespace tegula::autotune {

/// Every combination of values for which the kernel can be traced, the defaults first. A name that
/// is asked for under some values only is part of those combinations alone.
struct UserSpace {
  std::vector<Tuning> settings;
  /// Combinations that cannot be traced, each with its error.
  std::vector<std::pair<Tuning, std::string>> refused;
  /// There are more than kMaxSettings: these are the defaults, their neighbours and a sample.
  bool is_sampled = false;
};
inline constexpr std::size_t kMaxSettings = 4096;

/// Throws CompileError where the defaults cannot be traced.
UserSpace discover(const dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args);

/// Positions of the settings that differ from `of` in one name, by one step of the values that the
/// space has for it.
std::vector<int> neighbours(const UserSpace& space, int of);

/// The problem that a call poses: hash of the default values' trace, then dtype, extents and
/// strides of each argument. The same in every process.
std::string problem_text(dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args);

/// Reads str(Tuning); none where the text is not one.
std::optional<Tuning> parse_tuning(std::string_view text);

}  // namespace tegula::autotune
