#pragma once
// The tuning of all decisions of one call of the library.
#include <vector>

#include "autotune/race/stored_race.h"
#include "dsl/planned_callable.h"
#include "tegula/tune.h"

namespace tegula::autotune {

/// Tunes one decision after another, by the time of the whole call; each gets these limits.
std::vector<TunedDecision> tune_call(const dsl::FirstCall& call, const TuneOptions& options,
                                     const RaceLimits& limits);

}  // namespace tegula::autotune
