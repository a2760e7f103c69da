#pragma once
// Audit of the model and the tuner: measures many configurations of a call, including those that
// the model considers slow, and compares fresh tunings with the best of them.
#include <functional>
#include <string>
#include <vector>

#include "autotune/race/race.h"

namespace tegula::autotune {

struct AuditOptions {
  int configurations = 256;  ///< half of them random, half the model's first choices
  int tunings = 1;           ///< independent tunings
  RaceLimits limits;         ///< of each tuning
  double seconds = 150;      ///< time limit; the remaining configurations are left for another run
  bool may_change_bits = false;
};

struct AuditedConfig {
  std::string config;
  double estimate_us = 0;  ///< by the model
  double us = 0;           ///< 0 if it was not timed
  double ratio = 0;        ///< time relative to that of the model's choice
  std::string why;         ///< why it was not timed
};

/// A tuning whose winner is measured against the best configuration of the set.
struct AuditedTuning {
  std::string config;
  double seconds = 0;
  int candidates = 0;
  bool is_low_confidence = false;
  double ratio = 0;  ///< relative to the best configuration of the set, measured side by side
  double low = 0, high = 0;
};

/// Audit of one decision of a call. Other decisions of the call are made by the model.
struct Audit {
  std::string family, problem;
  /// The model's first choices in its order, then configurations outside of its choices.
  std::vector<AuditedConfig> configs;
  int inside = 0;
  std::string best;
  bool is_complete = false;  ///< the whole set and all tunings were measured
  double model_ratio = 0;    ///< the model's choice relative to the best, measured side by side
  std::vector<AuditedTuning> tunings;
};

/// Runs `calls` and audits each decision of the library's calls in it. Timings are stored under a
/// hash of the machine code, so that an interrupted audit can resume. Winners are not published.
std::vector<Audit> audit(const std::function<void()>& calls, const AuditOptions& options);

}  // namespace tegula::autotune
