#include "autotune/user/tuned_race.h"

#include <algorithm>
#include <chrono>

#include "autotune/race/race_log.h"
#include "autotune/user/in_process_measure.h"

namespace tegula::autotune {
namespace {

constexpr const char* kPolicy = "in-process cold";

/// The key is this process's while it lives.
class Claim {
 public:
  Claim(const TuningKey& key, const TuneOptions& options)
      : key_(key), is_held_(TuningStore::of_process().claim(key)) {
    if (!is_held_ && options.progress) options.progress("another process tunes this problem, too");
  }
  ~Claim() {
    if (is_held_) TuningStore::of_process().release(key_);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  const TuningKey& key_;
  bool is_held_;
};

}  // namespace

Device device_of(std::span<const dsl::HostArg> args) {
  for (const dsl::HostArg& a : args)
    if (a.tensor != nullptr && a.tensor->defined()) return a.tensor->device();
  return Device::best();
}

RaceResult race_call(CallCandidates& candidates, const RacedCall& call,
                     const TuneOptions& options) {
  const Claim claim(call.key, options);
  InProcessMeasure measure(candidates, call.args, call.device,
                           {options.may_change_bits, options.progress});
  RaceLog log(TuningStore::of_process(), call.key, kPolicy);
  const auto begin = std::chrono::steady_clock::now();
  RaceOptions race_options;
  race_options.limits =
      limits_of(options.budget == TuneBudget::quick ? Budget::quick : Budget::full);
  race_options.texts = call.texts;
  race_options.seeds = std::min(call.seeds, race_options.limits.candidates);
  race_options.incumbent = call.incumbent;
  race_options.neighbours = call.neighbours;
  race_options.recall = [&](const std::string& code) { return log.recall(code); };
  race_options.record = [&](const Known& k) { log.record(k); };
  race_options.seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  RaceResult result = race(measure, race_options);
  if (result.ns == 0) result.ns = measure.reference_ns() * result.ratio.value;
  return result;
}

}  // namespace tegula::autotune
