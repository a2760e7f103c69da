#pragma once
// A race's memory: what each machine code was found to be, kept in the store after every round, so
// that a race that was killed goes on where it was.
#include <map>
#include <string>

#include "autotune/race/race.h"
#include "autotune/store/tuning_store.h"

namespace tegula::autotune {

class RaceLog {
 public:
  /// `policy` says how the times were taken: those of another policy are not used.
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
