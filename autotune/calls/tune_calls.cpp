// tune(calls), and tuning of calls by TEGULA_TUNE.
#include "autotune/calls/tune_calls.h"

#include <fmt/format.h>

#include <utility>

#include "autotune/calls/first_calls.h"
#include "autotune/calls/plan_measure.h"

namespace tegula::autotune {
namespace {

class CallTuning {
 public:
  CallTuning(const dsl::FirstCall& call, const TuneOptions& options, const RaceLimits& limits)
      : call_(call), options_(options), limits_(limits), device_(call.stream().device()) {}

  std::vector<TunedDecision> run() {
    std::vector<TunedDecision> out;
    std::size_t next = 0;
    // A configuration may lead to decisions that the default does not need.
    for (CallDecisions all = decisions_of(call_, given_); next < all.decisions.size();
         all = decisions_of(call_, given_))
      for (; next < all.decisions.size(); ++next)
        out.push_back(tune(*all.plan, all.decisions[next]));
    return out;
  }

 private:
  TuningKey key_of(const Decision& d) const {
    return {device_class(device_), d.family, d.version, d.problem,
            options_.may_change_bits ? kAnyBits : kSameBits};
  }

  TunedDecision tune(const dsl::CallPlan& plan, const Decision& d) {
    TunedDecision out;
    out.family = d.family, out.problem = d.problem, out.by_default = d.by_default;
    const TuningKey key = key_of(d);
    std::optional<Winner> known = WinnerTable::of_process().find(key);
    if (known && !d.is_usable(known->config, options_.may_change_bits)) known.reset();
    if (known && !options_.again) {
      out.was_known = true;
      out.config = known->config;
      out.ratio = known->ratio, out.ratio_high = known->ratio_high;
      out.candidates = static_cast<int>(known->candidates);
    } else {
      race(plan, d, known ? known->config : d.by_default, out);
    }
    given_[d.key()] = out.config;
    if (!out.is_low_confidence) use_winner(key.device, d.family, d.problem, out.config);
    return out;
  }

  void race(const dsl::CallPlan& plan, const Decision& d, const std::string& incumbent,
            TunedDecision& out) {
    const CandidateList list = d.list({limits_.candidates, options_.may_change_bits, incumbent});
    if (options_.progress)
      options_.progress(
          fmt::format("{}: {} configurations for {}", d.family, list.texts.size(), d.problem));
    StoredRace race{key_of(d), limits_, list.texts, list.estimates, list.seeds, incumbent};
    race.neighbours = [&](int id) { return list.neighbours[static_cast<std::size_t>(id)]; };
    race.say = options_.progress;
    PlanMeasure measure(call_, plan, d, list.texts, given_, options_);
    const RaceResult result = run_stored(race, measure);
    const auto text = [&](int id) { return list.texts[static_cast<std::size_t>(id)]; };
    out.config = text(result.winner);
    out.is_replaced = result.is_replaced, out.is_low_confidence = result.is_low_confidence;
    out.us = result.ns / 1000;
    out.ratio = result.ratio.value, out.ratio_high = result.ratio.high;
    out.candidates = result.raced;
    for (const auto& [id, why] : result.rejected)
      out.rejected.push_back(fmt::format("{}: {}", text(id), why));
    publish_winner(race, result);
  }

  const dsl::FirstCall& call_;
  const TuneOptions& options_;
  const RaceLimits& limits_;
  Device device_;
  DecisionScope::Given given_;
};

}  // namespace

std::vector<TunedDecision> tune_call(const dsl::FirstCall& call, const TuneOptions& options,
                                     const RaceLimits& limits) {
  return CallTuning(call, options, limits).run();
}

}  // namespace tegula::autotune

namespace tegula {

std::vector<TunedDecision> tune(const std::function<void()>& calls, const TuneOptions& options) {
  std::vector<TunedDecision> all;
  autotune::on_first_calls(calls, [&](const dsl::FirstCall& call) {
    for (TunedDecision& d : autotune::tune_call(call, options, autotune::limits_of(options.budget)))
      all.push_back(std::move(d));
  });
  return all;
}

}  // namespace tegula
