#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tegula/tuning.h"

/// Tuning of the library's own calls: their tiles, stages and splits.
namespace tegula {

/// One tuned decision of a call.
struct TunedDecision {
  std::string family;              ///< "matmul", "attention_tiles", ..
  std::string problem;             ///< properties that the decision depends on: "m=512 n=512 .."
  std::string by_default, config;  ///< configurations without tuning and from now on
  bool was_known = false;          ///< found in the store without a measurement
  bool is_replaced = false;        ///< measured to be faster than the previous one beyond noise
  bool is_low_confidence = false;  ///< the device was unsteady, and nothing was replaced
  double us = 0;                   ///< time of the whole call, 0 if not measured
  double ratio = 1;                ///< time relative to that of the default
  double ratio_high = 1;           ///< upper end of the ratio's 95 % interval
  int candidates = 0;              ///< number of timed configurations
  /// Configurations that were not timed or failed, each with its reason.
  std::vector<std::string> rejected;
};

/// Runs `calls` and tunes each call of the library in it (`matmul`, `fused_matmul`, `attention`,
/// ..) before the call runs. Candidates run on copies of the arguments and are checked against the
/// results of the default. If a call makes several decisions, they are tuned one after another by
/// the time of the whole call. Winners are kept like those of Kernel::tune(): later calls of the
/// same problem use them, also in other processes. With `may_change_bits` only this process uses
/// them.
///
///     tune([&] { matmul(A, B, C); });
///
/// Calls on a stream that records a graph are not tuned. User kernels are tuned by Kernel::tune().
/// Throws what the calls throw.
std::vector<TunedDecision> tune(const std::function<void()>& calls,
                                const TuneOptions& options = {});

}  // namespace tegula
