#pragma once
// Interleaved successive halving: which candidate is the fastest, and is it surely faster than the
// incumbent? Pure logic over a Measure.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotune/race/measure.h"
#include "autotune/race/statistics.h"

namespace tegula::autotune {

enum class Budget : std::uint8_t { off, quick, full };

/// Bounds of a budget. Fewer candidates are raced where time is short, never fewer rounds.
struct RaceLimits {
  int candidates = 64;
  double seconds = 3;
};
RaceLimits limits_of(Budget budget);

/// Knowledge of one machine code, from an earlier race or this one.
struct Known {
  std::string code;
  Verdict verdict = Verdict::ok;
  bool is_low_confidence = false;
  double ns = 0, ratio = 1, standard_error = 0;
  int samples = 0;
  double clock_mhz = 0, watts = 0;
};

/// The state of a race, for people who wait.
struct RaceProgress {
  const char* phase = "";  ///< compile, race, neighbours, final
  int entered = 0;         ///< candidates that were compiled so far
  int racing = 0;          ///< those that are still in it
  int best = 0;            ///< the fastest so far, and its time over the reference's
  double best_ratio = 1;
  double best_ns = 0;
  double seconds = 0, limit = 0;
};

struct RaceOptions {
  RaceLimits limits;
  std::uint64_t seed = 1;
  /// Canonical text of each candidate; that of the reference is texts[0].
  std::vector<std::string> texts;
  /// Candidates 0 .. seeds - 1 enter the first race; all where it is 0.
  int seeds = 0;
  /// The candidate that is used now; 0 where it is the reference itself.
  int incumbent = 0;
  /// Candidates one step from this one; they are tried after the first race. May be empty.
  std::function<std::vector<int>(int)> neighbours;
  std::function<std::optional<Known>(const std::string& code)> recall;
  std::function<void(const Known&)> record;
  std::function<double()> seconds;  ///< since the start
  std::function<void(const RaceProgress&)> progress;
  /// A candidate was timed; in later rounds again.
  std::function<void(int candidate, const Prepared& code, const Known& known)> timed;
};

struct RaceResult {
  /// The fastest candidate, the incumbent where no other is faster beyond noise.
  int winner = 0;
  /// Whether the winner replaces the incumbent.
  bool is_replaced = false;
  bool is_low_confidence = false;
  Estimate ratio;  ///< of the winner to the reference
  Estimate ratio_to_incumbent;
  double ns = 0;
  std::string code;
  int raced = 0;  ///< candidates with at least one round
  /// Verdicts of those that were not raced, by candidate.
  std::vector<std::pair<int, std::string>> rejected;
};

/// Candidates are 0 .. texts.size() - 1, the seeds in order of preference. Throws InternalError
/// where the reference itself cannot run.
RaceResult race(Measure& measure, const RaceOptions& options);

}  // namespace tegula::autotune
