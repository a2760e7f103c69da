#pragma once
// Tuning of all decisions of one library call.
#include <vector>

#include "autotune/race/stored_race.h"
#include "dsl/planned_callable.h"
#include "tegula/tune.h"

namespace tegula::autotune {

/// Tunes the decisions one after another, by the time of the whole call, within `limits` each.
std::vector<TunedDecision> tune_call(const dsl::FirstCall& call, const TuneOptions& options,
                                     const RaceLimits& limits);

}  // namespace tegula::autotune
