#include "autotune/race/stored_race.h"

#include <algorithm>
#include <chrono>

#include "autotune/race/race_log.h"
#include "autotune/race/tune_listener.h"
#include "autotune/store/winner_table.h"

namespace tegula::autotune {
namespace {

/// Claims a key for this process; not claimed if another process already tunes it.
class Claim {
 public:
  Claim(TuningStore& store, const StoredRace& race)
      : store_(store), key_(race.key), is_claimed_(store.claim(race.key)) {
    if (!is_claimed_ && race.say) race.say("another process tunes this problem, too");
  }
  ~Claim() {
    if (is_claimed_) store_.release(key_);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  TuningStore& store_;
  const TuningKey& key_;
  bool is_claimed_;
};

void listen(const StoredRace& race, RaceOptions& options) {
  const TuneListener* const listener = TuneListener::current();
  if (listener == nullptr) return;
  const auto text_of = [&race](int id) { return race.texts[static_cast<std::size_t>(id)]; };
  options.progress = [listener, text_of](const RaceProgress& p) {
    listener->callbacks.progress(p, text_of(p.best));
  };
  options.timed = [&race, listener, text_of, seconds = options.seconds](
                      int id, const Prepared& code, const Known& known) {
    const auto at = static_cast<std::size_t>(id);
    const double estimate = at < race.estimates.size() ? race.estimates[at] : 0;
    listener->callbacks.timed({text_of(id), code, known, seconds(), estimate});
  };
}

int position_of(const StoredRace& race) {
  const auto at = std::ranges::find(race.texts, race.incumbent);
  return at == race.texts.end() ? 0 : static_cast<int>(at - race.texts.begin());
}

}  // namespace

RaceLimits limits_of(TuneBudget budget) {
  return limits_of(budget == TuneBudget::quick ? Budget::quick : Budget::full);
}

RaceResult run_stored(const StoredRace& race, Measure& measure) {
  TuningStore& store = TuningStore::of_process();
  const Claim claim(store, race);
  RaceLog log(store, race.key, race.policy);
  RaceOptions options;
  options.limits = race.limits;
  options.texts = race.texts;
  options.seeds = race.seeds;
  options.incumbent = position_of(race);
  options.neighbours = race.neighbours;
  options.recall = [&](const std::string& code) { return log.recall(code); };
  options.record = [&](const Known& k) { log.record(k); };
  options.seconds = [begin = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  listen(race, options);
  RaceResult result = autotune::race(measure, options);
  if (result.ns == 0) result.ns = measure.reference_ns() * result.ratio.value;
  return result;
}

void publish_winner(const StoredRace& race, const RaceResult& result) {
  if (result.is_low_confidence) return;
  WinnerTable::of_process().publish({race.key, race.texts[static_cast<std::size_t>(result.winner)],
                                     result.code, result.ratio.value, result.ratio.high,
                                     result.raced, "", 0});
}

}  // namespace tegula::autotune
