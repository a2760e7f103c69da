#pragma once
// Results of a race by machine code, written to the store after every round, so that an interrupted
// race can resume.
#include <map>
#include <string>

#include "autotune/race/race.h"
#include "autotune/store/tuning_store.h"

namespace tegula::autotune {

class RaceLog {
 public:
  /// `policy` names how times are taken. Times of another policy are ignored.
  RaceLog(TuningStore& store, TuningKey key, std::string policy);

  std::optional<Known> recall(const std::string& code) const;
  void record(const Known& known);

 private:
  TuningStore& store_;
  TuningKey key_;
  std::string policy_;
  std::map<std::string, Known> known_;
};

}  // namespace tegula::autotune
