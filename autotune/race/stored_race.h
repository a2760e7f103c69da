#pragma once
// A race whose timings are kept in the store of the process, used for kernels of the user and for
// calls of the library.
#include <functional>
#include <string>
#include <vector>

#include "autotune/race/race.h"
#include "autotune/store/records.h"
#include "tegula/tuning.h"

namespace tegula::autotune {

/// Policy of the times by which winners are chosen: cold L2.
inline constexpr const char* kColdPolicy = "cold";

struct StoredRace {
  TuningKey key;
  RaceLimits limits;
  /// Canonical text of each candidate, the reference first.
  std::vector<std::string> texts;
  /// Estimated microseconds of each candidate; empty without a model.
  std::vector<double> estimates = {};
  int seeds = 0;               ///< the first candidates, which enter the race; 0: all
  std::string incumbent = {};  ///< text of the configuration in use; empty: the reference
  std::function<std::vector<int>(int)> neighbours = {};
  /// Receives a message if another process tunes the same key.
  std::function<void(const std::string&)> say = {};
  /// Timings of another policy are not recalled.
  std::string policy = kColdPolicy;
};

RaceLimits limits_of(TuneBudget budget);

/// Runs the race and reports its progress to the listener of this thread.
RaceResult run_stored(const StoredRace& race, Measure& measure);

/// Stores the winner of such a race, unless it is of low confidence.
void publish_winner(const StoredRace& race, const RaceResult& result);

}  // namespace tegula::autotune
