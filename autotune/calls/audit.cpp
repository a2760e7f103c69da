#include "autotune/calls/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "autotune/calls/first_calls.h"
#include "autotune/calls/plan_measure.h"
#include "autotune/race/race_log.h"
#include "autotune/race/stored_race.h"

namespace tegula::autotune {
namespace {

constexpr const char* kAuditPolicy = "audit";
constexpr std::size_t kBatch = 16;
constexpr int kRepetitions = 9;
constexpr int kFinalPairs = 45;

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class DecisionAudit {
 public:
  DecisionAudit(const dsl::FirstCall& call, const CallDecisions& made, const Decision& decision,
                const AuditOptions& options, const Clock& clock)
      : call_(call),
        plan_(*made.plan),
        decision_(decision),
        options_(options),
        clock_(clock),
        key_{device_class(call.stream().device()), decision.family, decision.version,
             decision.problem, options.may_change_bits ? kAnyBits : kSameBits} {
    tune_options_.may_change_bits = options.may_change_bits;
  }

  Audit run() {
    out_.family = decision_.family, out_.problem = decision_.problem;
    if (!measure_set()) return out_;
    find_best();
    for (int i = 0; i < options_.tunings; ++i) {
      if (!has_time()) return out_;
      tune(i);
    }
    out_.is_complete = compare_winners();
    return out_;
  }

 private:
  bool has_time() const { return clock_.seconds() < options_.seconds; }
  PlanMeasure measure_of(const std::vector<std::string>& texts) const {
    return {call_, plan_, decision_, texts, given_, tune_options_};
  }
  /// Prepares the reference of a measurement, the model's choice. Returns the hash of its code.
  static std::string begin(PlanMeasure& measure) {
    const int reference = 0;
    const std::vector<Prepared> made = measure.prepare(std::span(&reference, 1));
    measure.check(reference);
    return made.front().code;
  }

  /// Returns true if there was time for the whole set.
  bool measure_set() {
    const CandidateList list =
        decision_.list({options_.configurations, options_.may_change_bits, "", 0.5, false});
    out_.inside = list.inside;
    for (std::size_t i = 0; i < list.texts.size(); ++i)
      out_.configs.push_back({list.texts[i], list.estimates[i], 0, 0, "not reached"});
    PlanMeasure measure = measure_of(list.texts);
    RaceLog log(TuningStore::of_process(), key_, kAuditPolicy);
    take_reference(begin(measure), measure, log);
    for (std::size_t at = 1; at < list.texts.size(); at += kBatch) {
      if (!has_time()) return false;
      std::vector<int> ids;
      for (std::size_t i = at; i < std::min(at + kBatch, list.texts.size()); ++i)
        ids.push_back(static_cast<int>(i));
      measure_batch(measure, ids, log);
    }
    return true;
  }

  void take_reference(const std::string& code, PlanMeasure& measure, RaceLog& log) {
    if (!log.recall(code)) {
      measure.round({}, kRepetitions, 0);
      log.record({code, Verdict::ok, false, measure.reference_ns(), 1, 0, kRepetitions});
    }
    take(0, *log.recall(code));
  }

  AuditedConfig& config_of(int id) { return out_.configs[static_cast<std::size_t>(id)]; }

  void take(int id, const Known& known) {
    AuditedConfig& c = config_of(id);
    c.why = known.verdict == Verdict::ok ? "" : name(known.verdict);
    if (known.verdict == Verdict::ok) c.us = known.ns / 1000, c.ratio = known.ratio;
  }

  /// Returns true if a compiled configuration is correct; records the verdict in any case.
  static bool is_correct(PlanMeasure& measure, int id, Known& known, std::string& why) {
    CheckResult check = measure.try_once(id);
    if (check.verdict == Verdict::ok) check = measure.check(id);
    known.verdict = check.verdict;
    why = check.why;
    return check.verdict == Verdict::ok;
  }

  void measure_batch(PlanMeasure& measure, const std::vector<int>& ids, RaceLog& log) {
    const std::vector<Prepared> made = measure.prepare(ids);
    std::vector<int> racing;
    std::map<int, std::string> codes;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const int id = ids[i];
      if (made[i].verdict != Verdict::ok) {
        config_of(id).why = made[i].why;
        continue;
      }
      Known known{made[i].code};
      if (const auto before = log.recall(known.code))
        take(id, *before);
      else if (std::ranges::any_of(codes, [&](const auto& c) { return c.second == known.code; }))
        config_of(id).why = "its machine code is that of another configuration";
      else if (is_correct(measure, id, known, config_of(id).why))
        racing.push_back(id), codes[id] = known.code;
      else if (known.verdict != Verdict::refused)
        log.record(known);
    }
    time(measure, racing, codes, log);
    for (const int id : ids) measure.forget(id);
  }

  void time(PlanMeasure& measure, const std::vector<int>& ids,
            const std::map<int, std::string>& codes, RaceLog& log) {
    if (ids.empty()) return;
    const Round round = measure.round(ids, kRepetitions, static_cast<std::uint64_t>(ids.front()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Samples& s = round.of[i];
      Known known{codes.at(ids[i]), s.verdict};
      if (s.verdict == Verdict::ok && !s.ratios.empty()) {
        const Estimate e = hodges_lehmann(s.ratios);
        known.ns = s.ns, known.ratio = e.value, known.standard_error = e.standard_error;
        known.samples = e.samples;
      }
      log.record(known);
      take(ids[i], known);
    }
  }

  void find_best() {
    const AuditedConfig* best = nullptr;
    for (const AuditedConfig& c : out_.configs)
      if (c.ratio > 0 && (best == nullptr || c.ratio < best->ratio)) best = &c;
    out_.best = best == nullptr ? out_.configs.front().config : best->config;
  }

  void tune(int number) {
    const Clock clock;
    const CandidateList list =
        decision_.list({options_.limits.candidates, options_.may_change_bits});
    StoredRace race{key_, options_.limits, list.texts, list.estimates, list.seeds};
    race.neighbours = [&](int id) { return list.neighbours[static_cast<std::size_t>(id)]; };
    race.policy = fmt::format("fresh {}", number);
    PlanMeasure measure = measure_of(list.texts);
    const RaceResult result = run_stored(race, measure);
    out_.tunings.push_back({list.texts[static_cast<std::size_t>(result.winner)], clock.seconds(),
                            result.raced, result.is_low_confidence});
  }

  /// Compares winners and the model's choice with the best configuration of the set.
  bool compare_winners() {
    std::vector<std::string> texts{decision_.by_default};
    const auto position = [&](const std::string& text) {
      const auto at = std::ranges::find(texts, text);
      if (at == texts.end()) texts.push_back(text);
      return static_cast<std::size_t>(std::ranges::find(texts, text) - texts.begin());
    };
    const std::size_t best = position(out_.best);
    std::vector<std::size_t> winners;
    for (const AuditedTuning& t : out_.tunings) winners.push_back(position(t.config));
    std::vector<int> others;
    for (std::size_t i = 1; i < texts.size(); ++i) others.push_back(static_cast<int>(i));
    PlanMeasure measure = measure_of(texts);
    begin(measure);
    measure.prepare(others);
    const Round round = measure.round(others, kFinalPairs, 1);
    const auto ratios_of = [&](std::size_t i) {
      return i == 0 ? std::vector<double>(kFinalPairs, 1) : round.of[i - 1].ratios;
    };
    const auto to_best = [&](std::size_t i) {
      std::vector<double> pairs = ratios_of(i);
      const std::vector<double> of_best = ratios_of(best);
      if (pairs.size() != of_best.size() || pairs.empty()) return Estimate{};  // one of them failed
      for (std::size_t p = 0; p < pairs.size(); ++p) pairs[p] /= of_best[p];
      return hodges_lehmann(pairs);
    };
    out_.model_ratio = to_best(0).value;
    for (std::size_t i = 0; i < winners.size(); ++i) {
      const Estimate e = to_best(winners[i]);
      AuditedTuning& t = out_.tunings[i];
      t.ratio = e.value, t.low = e.low, t.high = e.high;
    }
    const auto failed =
        std::erase_if(out_.tunings, [](const AuditedTuning& t) { return t.ratio <= 0; });
    return failed == 0;
  }

  const dsl::FirstCall& call_;
  const dsl::CallPlan& plan_;
  const Decision& decision_;
  const AuditOptions& options_;
  const Clock& clock_;
  TuningKey key_;
  TuneOptions tune_options_;
  DecisionScope::Given given_;
  Audit out_;
};

}  // namespace

std::vector<Audit> audit(const std::function<void()>& calls, const AuditOptions& options) {
  std::vector<Audit> all;
  const Clock clock;
  on_first_calls(calls, [&](const dsl::FirstCall& call) {
    const CallDecisions made = decisions_of(call, {});
    for (const Decision& d : made.decisions)
      all.push_back(DecisionAudit(call, made, d, options, clock).run());
  });
  return all;
}

}  // namespace tegula::autotune
