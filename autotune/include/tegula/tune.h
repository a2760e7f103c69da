#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tegula/tuning.h"

/// Tuning of the library's own calls: their tiles, stages, splits.
namespace tegula {

/// One decision of a call that was tuned.
struct TunedDecision {
  std::string family;   ///< "matmul", "attention_tiles", ..
  std::string problem;  ///< the properties that the decision depends on: "m=512 n=512 .."
  std::string by_default, config;
  bool was_known = false;          ///< found in the store: nothing was measured
  bool is_replaced = false;        ///< measured, and faster than what was used before, beyond noise
  bool is_low_confidence = false;  ///< the device was not steady: nothing was replaced
  double us = 0;                   ///< time of the whole call, 0 where it was not measured
  double ratio = 1;                ///< its time over that of the default
  double ratio_high = 1;           ///< upper end of the ratio's 95 % interval
  int candidates = 0;              ///< configurations that were timed
  /// Configurations that were not timed or failed, each with its reason.
  std::vector<std::string> rejected;
};

/// Runs `calls` and tunes each call of the library in it, `matmul`, `fused_matmul`, `attention`,
/// .., before it runs: on copies of its arguments, every candidate checked against the default's
/// results. A call of several kernels has a configuration for each decision, tuned one after
/// another by the time of the whole call. Winners are kept as those of Kernel::tune() are, and
/// calls of the same problem use them from then on, in other processes, too. With
/// `may_change_bits` they are used by this process alone.
///
///     tune([&] { matmul(A, B, C); });
///
/// Calls of a stream that records a graph are not tuned. Kernels of the user are tuned by
/// Kernel::tune(). Throws what the calls throw.
std::vector<TunedDecision> tune(const std::function<void()>& calls,
                                const TuneOptions& options = {});

}  // namespace tegula
