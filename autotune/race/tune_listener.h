#pragma once
// Progress of the tunings of a thread, for a program that shows it.
#include <functional>
#include <string>
#include <utility>

#include "autotune/race/race.h"

namespace tegula::autotune {

/// A setting that was timed, `seconds` after the start.
struct TimedSetting {
  std::string config;
  const Prepared& code;
  const Known& known;
  double seconds = 0;
  double estimate_us = 0;  ///< the model's; 0 where there is none
};

/// While it lives, the tunings that this thread starts tell it how they are getting on.
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

  /// This thread's; null for none.
  static const TuneListener* current();

  const Callbacks callbacks;
};

}  // namespace tegula::autotune
