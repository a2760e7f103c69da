#include "autotune/race/race_log.h"

#include <array>

namespace tegula::autotune {
namespace {

Verdict verdict_of(const std::string& text) {
  for (const Verdict v : {Verdict::ok, Verdict::wrong, Verdict::fault, Verdict::timeout})
    if (text == name(v)) return v;
  return Verdict::ok;
}

}  // namespace

RaceLog::RaceLog(TuningStore& store, TuningKey key, std::string policy)
    : store_(store), key_(std::move(key)), policy_(std::move(policy)) {
  for (const Timing& t : store_.timings(key_, policy_))
    known_[t.code] = {t.code,   verdict_of(t.verdict),       t.verdict == "low", t.ns,   t.ratio,
                      t.spread, static_cast<int>(t.samples), t.clock_mhz,        t.watts};
}

std::optional<Known> RaceLog::recall(const std::string& code) const {
  const auto at = known_.find(code);
  return at == known_.end() ? std::nullopt : std::optional(at->second);
}

void RaceLog::record(const Known& known) {
  known_[known.code] = known;
  const bool is_low = known.verdict == Verdict::ok && known.is_low_confidence;
  store_.record({key_, policy_, known.code, known.ns, known.ratio, known.standard_error,
                 known.samples, known.clock_mhz, known.watts, is_low ? "low" : name(known.verdict),
                 0});
}

}  // namespace tegula::autotune
