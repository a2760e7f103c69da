#pragma once
// How good the model and a tuning are: many configurations of a call are measured once, whatever
// the model thinks of them, and fresh tunings are held against the best of them.
#include <functional>
#include <string>
#include <vector>

#include "autotune/race/race.h"

namespace tegula::autotune {

struct AuditOptions {
  int configurations = 256;  ///< half of them random, half the model's first
  int tunings = 1;           ///< that know nothing of each other
  RaceLimits limits;         ///< of each tuning
  double seconds = 150;      ///< after which what was not measured is left for another time
  bool may_change_bits = false;
};

struct AuditedConfig {
  std::string config;
  double estimate_us = 0;  ///< the model's
  double us = 0;           ///< 0 where it was not timed
  double ratio = 0;        ///< its time over that of the model's choice
  std::string why;         ///< where it was not timed
};

/// A tuning whose winner is measured beside the best of the set.
struct AuditedTuning {
  std::string config;
  double seconds = 0;
  int candidates = 0;
  bool is_low_confidence = false;
  double ratio = 0;  ///< to the best configuration of the set, measured side by side
  double low = 0, high = 0;
};

/// The audit of one decision of a call; the model takes what other decisions need.
struct Audit {
  std::string family, problem;
  /// The model's first ones in its order, then those from outside of what it would take.
  std::vector<AuditedConfig> configs;
  int inside = 0;
  std::string best;
  bool is_complete = false;  ///< all of the set and all tunings
  double model_ratio = 0;    ///< of the model's choice to the best, measured beside it
  std::vector<AuditedTuning> tunings;
};

/// Runs `calls` and audits each decision of the library's calls in it. Timings stay in the store,
/// by machine code, so that an audit goes on where it was left. Winners are not published.
std::vector<Audit> audit(const std::function<void()>& calls, const AuditOptions& options);

}  // namespace tegula::autotune
