// tune(calls), and the tuning of a call by TEGULA_TUNE.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "autotune/calls/plan_measure.h"
#include "autotune/race/race_log.h"
#include "runtime/stream_state.h"
#include "support/env.h"
#include "support/generation.h"
#include "tegula/tune.h"

namespace tegula::autotune {
namespace {

/// The tuning of all decisions of one call, one after another.
class CallTuning {
 public:
  CallTuning(const dsl::FirstCall& call, const TuneOptions& options)
      : call_(call), options_(options), device_(call.stream().device()) {}

  std::vector<TunedDecision> run() {
    std::vector<TunedDecision> out;
    std::size_t next = 0;
    // A configuration may lead to decisions that the default one has no need for.
    for (std::vector<Decision> all = decisions(); next < all.size(); all = decisions())
      for (; next < all.size(); ++next) out.push_back(tune(all[next]));
    return out;
  }

 private:
  std::vector<Decision> decisions() {
    const DecisionScope scope(given_);
    plan_ = call_.build();
    std::vector<Decision> noted = scope.noted();
    if (plan_->writes_captures) noted.clear();  // nothing says what to restore
    return noted;
  }

  TuningKey key_of(const Decision& d) const {
    return {device_class(device_), d.family, d.version, d.problem,
            options_.may_change_bits ? kAnyBits : kSameBits};
  }

  TunedDecision tune(const Decision& d) {
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
      race(d, key, known ? known->config : d.by_default, out);
    }
    given_[d.key()] = out.config;
    if (!out.is_low_confidence) use_winner(key.device, d.family, d.problem, out.config);
    return out;
  }

  RaceResult raced(PlanMeasure& measure, const TuningKey& key, const CandidateList& list,
                   const std::string& incumbent) const {
    TuningStore& store = TuningStore::of_process();
    const bool is_claimed = store.claim(key);
    RaceLog log(store, key, "cold");
    const auto begin = std::chrono::steady_clock::now();
    RaceOptions race_options;
    race_options.limits =
        limits_of(options_.budget == TuneBudget::quick ? Budget::quick : Budget::full);
    race_options.texts = list.texts;
    race_options.seeds = list.seeds;
    const auto at = std::ranges::find(list.texts, incumbent);
    if (at != list.texts.end()) race_options.incumbent = static_cast<int>(at - list.texts.begin());
    race_options.neighbours = [&](int id) { return list.neighbours[static_cast<std::size_t>(id)]; };
    race_options.recall = [&](const std::string& code) { return log.recall(code); };
    race_options.record = [&](const Known& k) { log.record(k); };
    race_options.seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    RaceResult result = autotune::race(measure, race_options);
    if (result.ns == 0) result.ns = measure.reference_ns() * result.ratio.value;
    if (is_claimed) store.release(key);
    return result;
  }

  void race(const Decision& d, const TuningKey& key, const std::string& incumbent,
            TunedDecision& out) {
    const int most =
        limits_of(options_.budget == TuneBudget::quick ? Budget::quick : Budget::full).candidates;
    const CandidateList list = d.list({most, options_.may_change_bits, incumbent});
    if (options_.progress)
      options_.progress(
          fmt::format("{}: {} configurations for {}", d.family, list.texts.size(), d.problem));
    PlanMeasure measure(call_, *plan_, d, list.texts, given_, options_);
    const RaceResult result = raced(measure, key, list, incumbent);
    const auto text = [&](int id) { return list.texts[static_cast<std::size_t>(id)]; };
    out.config = text(result.winner);
    out.is_replaced = result.is_replaced, out.is_low_confidence = result.is_low_confidence;
    out.us = result.ns / 1000;
    out.ratio = result.ratio.value, out.ratio_high = result.ratio.high;
    out.candidates = result.raced;
    for (const auto& [id, why] : result.rejected)
      out.rejected.push_back(fmt::format("{}: {}", text(id), why));
    if (!result.is_low_confidence)
      WinnerTable::of_process().publish(
          {key, out.config, result.code, out.ratio, out.ratio_high, result.raced, "", 0});
  }

  const dsl::FirstCall& call_;
  const TuneOptions& options_;
  Device device_;
  DecisionScope::Given given_;
  std::shared_ptr<const dsl::CallPlan> plan_;
};

/// The calls of this thread that tune(calls) runs.
struct TunedCalls {
  const TuneOptions& options;
  std::vector<TunedDecision> decisions;
};
thread_local TunedCalls* tuned_calls = nullptr;
/// Calls within a tuning are its own.
thread_local bool is_tuning = false;

template <class T>
class Exchanged {
 public:
  Exchanged(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  ~Exchanged() { place_ = before_; }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  T& place_;
  T before_;
};

bool has_pointers(std::span<const dsl::HostArg> args) {
  return std::ranges::any_of(args, [](const dsl::HostArg& a) {
    return a.kind == dsl::ParamKind::Pointer && a.tensor == nullptr && a.bits != 0;
  });
}

void on_first_call(const dsl::FirstCall& call) {
  const bool by_environment = env().tune != "off" && call.stream().device().kind != DeviceKind::cpu;
  if (is_tuning || DecisionScope::current() || !(tuned_calls || by_environment)) return;
  if (runtime::is_recording(call.stream()) || has_pointers(call.args())) return;
  const Exchanged<bool> now(is_tuning, true);
  static std::mutex one_at_a_time;  // times of two tunings would disturb each other
  const std::lock_guard lock(one_at_a_time);
  call.stream().synchronize();  // copies are made on another stream
  if (tuned_calls) {
    for (TunedDecision& d : CallTuning(call, tuned_calls->options).run())
      tuned_calls->decisions.push_back(std::move(d));
    return;
  }
  TuneOptions options;
  options.budget = env().tune == "full" ? TuneBudget::full : TuneBudget::quick;
  CallTuning(call, options).run();
}

[[maybe_unused]] const bool is_installed = [] {
  dsl::set_first_call_hook(&on_first_call);
  return true;
}();

}  // namespace
}  // namespace tegula::autotune

namespace tegula {

std::vector<TunedDecision> tune(const std::function<void()>& calls, const TuneOptions& options) {
  autotune::TunedCalls tuned{options, {}};
  const autotune::Exchanged<autotune::TunedCalls*> now(autotune::tuned_calls, &tuned);
  begin_generation();  // every call is a first call again
  calls();
  return std::move(tuned.decisions);
}

}  // namespace tegula
