#pragma once
// Settings of a user's kernel: the values of its tune() calls, found by tracing it.
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsl/instance.h"

namespace tegula::autotune {

/// All combinations of values for which the kernel can be traced, the defaults first. A name that
/// is used only under some values is part of only those combinations.
struct UserSpace {
  std::vector<Tuning> settings;
  /// Combinations that cannot be traced, each with its error.
  std::vector<std::pair<Tuning, std::string>> refused;
  /// True if there are more than kMaxSettings: then the defaults, their neighbours and a sample.
  bool is_sampled = false;
};
inline constexpr std::size_t kMaxSettings = 4096;

/// Traces a kernel with these values and returns its tune() calls; null if it rejects the values.
using TraceTunables = std::function<const std::vector<dsl::Tunable>*(const Tuning& values)>;

/// Traces each combination of values once, depth first, the defaults first. `varies` returns true
/// for names that take other values than those of the trace of `given`. Returns false if there are
/// more than `most` combinations; the rest is then not traced.
bool walk_settings(const Tuning& given, const TraceTunables& trace,
                   bool (*varies)(const dsl::Tunable&), std::size_t most);

/// Throws CompileError if the defaults cannot be traced.
UserSpace discover(const dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args);

/// Returns the indices of the settings that differ from `of` in one name, by one step among the
/// values of that name in the space.
std::vector<int> neighbours(const UserSpace& space, int of);

/// Returns the problem of a call: a hash of the trace with default values, then dtype, extents and
/// strides of each argument. Equal in every process.
std::string problem_text(dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args);

/// Returns the text of values and preferred fields: "BK=64 BM=128", "BK=64 BM=128 | multicast=1".
std::string choice_text(const dsl::TunedChoice& choice);
/// Parses this format; returns nullopt if the text does not match.
std::optional<dsl::TunedChoice> parse_choice(std::string_view text);

}  // namespace tegula::autotune
