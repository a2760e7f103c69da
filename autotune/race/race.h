#pragma once
// Interleaved successive halving: finds the fastest candidate, and whether it is significantly
// faster than the incumbent. Pure logic on top of a Measure.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autotune/race/measure.h"
#include "autotune/race/statistics.h"

namespace tegula::autotune {

enum class Budget : std::uint8_t { off, quick, full };

/// Limits of a budget. If time is short, fewer candidates are raced, but not for fewer rounds.
struct RaceLimits {
  int candidates = 64;
  double seconds = 3;
};
RaceLimits limits_of(Budget budget);

/// Results for one machine code, from this race or an earlier one.
struct Known {
  std::string code;
  Verdict verdict = Verdict::ok;
  bool is_low_confidence = false;
  double ns = 0, ratio = 1, standard_error = 0;
  int samples = 0;
  double clock_mhz = 0, watts = 0;
};

/// State of a race, for progress displays.
struct RaceProgress {
  const char* phase = "";  ///< compile, race, neighbours, final
  int entered = 0;         ///< candidates compiled so far
  int racing = 0;          ///< candidates still in the race
  int best = 0;            ///< the fastest so far; best_ratio is its time relative to the reference
  double best_ratio = 1;
  double best_ns = 0;
  double seconds = 0, limit = 0;
};

struct RaceOptions {
  RaceLimits limits;
  std::uint64_t seed = 1;
  /// Canonical text of each candidate; texts[0] is the reference.
  std::vector<std::string> texts;
  /// Candidates 0 .. seeds - 1 enter the first race; 0: all candidates.
  int seeds = 0;
  /// The candidate in use; 0 if it is the reference itself.
  int incumbent = 0;
  /// Returns the candidates one step from the given one, for after the first race. May be empty.
  std::function<std::vector<int>(int)> neighbours;
  std::function<std::optional<Known>(const std::string& code)> recall;
  std::function<void(const Known&)> record;
  std::function<double()> seconds;  ///< since the start
  std::function<void(const RaceProgress&)> progress;
  /// Called after each round in which a candidate was timed.
  std::function<void(int candidate, const Prepared& code, const Known& known)> timed;
};

struct RaceResult {
  /// The fastest candidate, or the incumbent if no other candidate is faster beyond noise.
  int winner = 0;
  /// True if the winner replaces the incumbent.
  bool is_replaced = false;
  bool is_low_confidence = false;
  Estimate ratio;  ///< winner relative to the reference
  Estimate ratio_to_incumbent;
  double ns = 0;
  std::string code;
  int raced = 0;  ///< candidates with at least one round
  /// Candidates that were not raced, each with the reason.
  std::vector<std::pair<int, std::string>> rejected;
};

/// Races the candidates 0 .. texts.size() - 1; seeds are in order of preference. Throws
/// InternalError if the reference itself cannot run.
RaceResult race(Measure& measure, const RaceOptions& options);

}  // namespace tegula::autotune
