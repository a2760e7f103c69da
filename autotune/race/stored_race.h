#pragma once
// A race whose timings are kept in the process's store: that of a user's kernel and those of a call
// of the library.
#include <functional>
#include <string>
#include <vector>

#include "autotune/race/race.h"
#include "autotune/store/records.h"
#include "tegula/tuning.h"

namespace tegula::autotune {

/// How times are taken that winners are chosen by: with a cold L2.
inline constexpr const char* kColdPolicy = "cold";

struct StoredRace {
  TuningKey key;
  RaceLimits limits;
  /// Canonical text of each candidate, the reference first.
  std::vector<std::string> texts;
  /// Estimated microseconds of each candidate; empty where there is no model.
  std::vector<double> estimates = {};
  int seeds = 0;               ///< the first ones enter; all where it is 0
  std::string incumbent = {};  ///< text of the one that is used now; else the reference
  std::function<std::vector<int>(int)> neighbours = {};
  /// Gets a line where another process tunes the key.
  std::function<void(const std::string&)> say = {};
  /// Timings of another policy are not recalled.
  std::string policy = kColdPolicy;
};

RaceLimits limits_of(TuneBudget budget);

/// Runs it; the listener of this thread is told of its progress.
RaceResult run_stored(const StoredRace& race, Measure& measure);

/// Keeps the winner of such a race, unless it is of low confidence.
void publish_winner(const StoredRace& race, const RaceResult& result);

}  // namespace tegula::autotune
