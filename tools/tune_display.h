#pragma once
// Display of `tegula tune` while it measures: a line updated in place on a terminal, one line per
// shape otherwise, or events as JSON.
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "autotune/race/tune_listener.h"
#include "tegula/device.h"
#include "tegula/tune.h"

namespace tegula::tools {

/// Number of shapes so far, by result.
struct TuneCounts {
  int won = 0, kept = 0, known = 0, low = 0, failed = 0, not_reached = 0;
  int done() const { return won + kept + known + low + failed; }
};

/// Result of a tuned shape: the kernel's values, or the configurations of a call's decisions.
struct TunedShape {
  std::string config;
  bool was_known = false, is_replaced = false, is_low_confidence = false;
  double us = 0, ratio = 1, ratio_high = 1;  ///< of the call; ratios are relative to the default
  int candidates = 0;
  std::vector<std::string> rejected;
};
TunedShape shape_of(const TuneResult& kernel);
TunedShape shape_of(const std::vector<TunedDecision>& call);

/// Work of a call; 0 if unknown.
struct CallWork {
  double bytes = 0, flops = 0;
};

class TuneDisplay {
 public:
  TuneDisplay(int shapes, bool json, bool is_terminal);

  /// Thread-safe. `shape` is being tuned, `best` is the fastest setting so far.
  void progress(const std::string& shape, const autotune::RaceProgress& p, const std::string& best);
  /// Shown only as JSON events.
  void timed(const std::string& shape, const autotune::TimedSetting& setting);
  void device(Device device);
  void finished(const std::string& shape, const TunedShape& result, const CallWork& work);
  void failed(const std::string& shape, const std::string& why);
  /// Reports that time ran out before this shape.
  void not_reached(const std::string& shape);
  void end();

  TuneCounts counts() const { return counts_; }

 private:
  void line(const std::string& text);
  void show_state();
  double seconds_left() const;

  const int shapes_;
  const bool json_, is_terminal_;
  std::mutex mutex_;
  std::map<std::string, std::string> running_;  ///< state of each shape that is being tuned
  TuneCounts counts_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// "2 m 10 s"
std::string duration_text(double seconds);

}  // namespace tegula::tools
