#pragma once
// A race between the candidates of one call, its knowledge kept in the store of the process.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autotune/race/race.h"
#include "autotune/store/records.h"
#include "autotune/user/call_candidates.h"
#include "tegula/tuning.h"

namespace tegula::autotune {

struct RacedCall {
  TuningKey key;
  std::span<const dsl::HostArg> args;
  Device device;
  /// Canonical text of each candidate; the first is the reference.
  std::vector<std::string> texts;
  int seeds = 0;      ///< candidates that enter the first race, at the front
  int incumbent = 0;  ///< position of the winner so far
  std::function<std::vector<int>(int)> neighbours;
};

/// The device of a call: that of its first tensor.
Device device_of(std::span<const dsl::HostArg> args);

/// Claims the key meanwhile, so that no other process tunes it, too.
RaceResult race_call(CallCandidates& candidates, const RacedCall& call, const TuneOptions& options);

}  // namespace tegula::autotune
