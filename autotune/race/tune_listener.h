#pragma once
// Progress of the tunings of a thread, for programs that display it.
#include <functional>
#include <string>
#include <utility>

#include "autotune/race/race.h"

namespace tegula::autotune {

/// A setting that was timed; `seconds` since the start.
struct TimedSetting {
  std::string config;
  const Prepared& code;
  const Known& known;
  double seconds = 0;
  double estimate_us = 0;  ///< by the model; 0 without a model
};

/// Receives the progress of the tunings that this thread starts during its lifetime.
class TuneListener {
 public:
  struct Callbacks {
    /// `best` is the fastest setting so far.
    std::function<void(const RaceProgress& progress, const std::string& best)> progress;
    std::function<void(const TimedSetting& setting)> timed;
  };
  explicit TuneListener(Callbacks callbacks);
  ~TuneListener();
  TuneListener(const TuneListener&) = delete;
  TuneListener& operator=(const TuneListener&) = delete;

  /// Returns the listener of this thread, or null.
  static const TuneListener* current();

  const Callbacks callbacks;
};

}  // namespace tegula::autotune
