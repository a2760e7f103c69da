#include "autotune/race/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "tegula/error.h"

namespace tegula::autotune {
namespace {

constexpr std::array<int, 3> kRepetitions{5, 15, 45};
constexpr std::size_t kMinSurvivors = 3;
constexpr std::size_t kHalving = 3;
constexpr int kFinalPairs = 45;
constexpr int kTries = 3;           // attempts at a round while the reference drifts
constexpr double kMaxDrift = 0.02;  // drift that the random order of candidates hides
constexpr double kMinGain = 0.01;   // minimum gain over the incumbent; smaller differences are ties
constexpr std::size_t kBatch = 16;  // candidates compiled at one time
// Fractions of the time: until candidates enter, until neighbours are searched, for one round.
constexpr double kEnterShare = 0.4, kDescendShare = 0.6, kRoundShare = 0.12;
constexpr int kMinRepetitions = 15;  // of a deciding round, however slow the kernel is

struct Runner {
  int id = 0;
  Prepared code;
  Known known;
};

class Race {
 public:
  Race(Measure& measure, const RaceOptions& options)
      : measure_(measure), options_(options), incumbent_(options.incumbent) {}

  RaceResult run() {
    prepare_reference();
    const auto count = static_cast<std::size_t>(options_.seeds);
    std::vector<int> seeds(count == 0 ? options_.texts.size() : count);
    for (std::size_t i = 0; i < seeds.size(); ++i) seeds[i] = static_cast<int>(i);
    if (incumbent_ >= static_cast<int>(seeds.size())) seeds.push_back(incumbent_);
    enter(seeds);
    halve();
    if (options_.neighbours) descend();
    finish();
    return result_;
  }

 private:
  void tell(const char* phase) {
    if (!options_.progress) return;
    RaceProgress p{phase, static_cast<int>(tried_.size()), static_cast<int>(runners_.size())};
    const auto best =
        std::ranges::min_element(runners_, {}, [](const Runner& r) { return r.known.ratio; });
    if (best != runners_.end() && best->known.samples > 0) {
      p.best = best->id;
      p.best_ratio = best->known.ratio;
      p.best_ns = best->known.ns;
    }
    p.seconds = seconds();
    p.limit = options_.limits.seconds;
    options_.progress(p);
  }

  bool has_time(double share) const {
    return !options_.seconds || options_.seconds() < options_.limits.seconds * share;
  }

  void prepare_reference() {
    const int reference = 0;
    const Prepared p = measure_.prepare(std::span(&reference, 1)).front();
    if (p.verdict != Verdict::ok)
      throw InternalError(fmt::format("the reference {} cannot run: {}", options_.texts[0], p.why));
    const CheckResult check = measure_.check(reference);
    if (check.verdict != Verdict::ok)
      throw InternalError(fmt::format("the reference {} is {}: {}", options_.texts[0],
                                      name(check.verdict), check.why));
    codes_.insert(p.code);
    tried_.insert(reference);
    reference_ = {reference, p, {}};
    reference_.known.code = p.code;
  }

  /// Compiles and times untried candidates within the budget, the incumbent first. One batch always
  /// enters, however slow host and kernel are.
  void enter(std::vector<int> ids) {
    std::stable_partition(ids.begin(), ids.end(), [&](int id) { return id == incumbent_; });
    std::vector<Runner> degraded;
    std::vector<int> batch;
    std::size_t entered = 0;
    const auto flush = [&] {
      enter_batch(batch, degraded);
      batch.clear();
    };
    for (const int id : ids) {
      if (!tried_.insert(id).second) continue;
      const bool is_late = entered >= kBatch && batch.empty() && !has_time(kEnterShare);
      const auto size = runners_.size() + batch.size();
      if (is_late || static_cast<int>(size) >= options_.limits.candidates) break;
      batch.push_back(id);
      ++entered;
      if (batch.size() == kBatch) flush();
    }
    flush();
    const bool is_empty = std::ranges::all_of(runners_, [](const Runner& r) { return r.id == 0; });
    for (Runner& r : degraded)
      if (is_empty || r.id == incumbent_)
        admit(std::move(r));
      else
        reject(r.id, "its code is degraded: " + r.code.why);
    run_round(runners_, kRepetitions.front());
  }

  void enter_batch(const std::vector<int>& batch, std::vector<Runner>& degraded) {
    if (batch.empty()) return;
    tell("compile");
    const std::vector<Prepared> made = measure_.prepare(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Runner r{batch[i], made[i], {}};
      if (r.code.verdict != Verdict::ok)
        reject(r.id, r.code.why);
      else if (!codes_.insert(r.code.code).second && r.id != incumbent_)
        reject(r.id, "its machine code is that of another candidate");
      else if (r.code.is_degraded)
        degraded.push_back(std::move(r));
      else
        admit(std::move(r));
    }
    run_round(runners_, kRepetitions.front());
  }

  /// Rejects code that an earlier race found wrong, and code that writes out of bounds.
  void admit(Runner r) {
    r.known.code = r.code.code;
    if (r.id == incumbent_) incumbent_code_ = r.code.code;
    const auto before = options_.recall ? options_.recall(r.code.code) : std::nullopt;
    if (before && before->verdict != Verdict::ok)
      return reject(r.id, fmt::format("found {} before", name(before->verdict)));
    const CheckResult once = measure_.try_once(r.id);
    if (once.verdict != Verdict::ok) return fail(r, once.verdict, once.why);
    if (r.id == incumbent_ && !is_correct(r)) return;
    if (before && !before->is_low_confidence) r.known = *before;
    runners_.push_back(std::move(r));
  }

  void reject(int id, const std::string& why) {
    result_.rejected.emplace_back(id, why);
    measure_.forget(id);
    if (id == incumbent_) incumbent_ = 0;  // a rejected incumbent cannot stay
  }

  void fail(Runner& r, Verdict verdict, const std::string& why) {
    r.known.verdict = verdict;
    if (options_.record && verdict != Verdict::refused) options_.record(r.known);
    reject(r.id, fmt::format("{}: {}", name(verdict), why));
  }

  /// Repeats a round in which the reference drifts while there is time. The last round counts even
  /// if it drifts: a device at its power limit never settles, and ratios hardly change with it.
  Round steady_round(const std::vector<int>& ids, int repetitions) {
    for (int i = 1;; ++i) {
      const double begin = seconds();
      Round round = measure_.round(ids, repetitions, options_.seed + next_seed_++);
      const double took = seconds() - begin;
      seconds_of_sample_ = took / (repetitions * static_cast<double>(ids.size() + 1));
      const bool has_time_again = has_time(kDescendShare - took / options_.limits.seconds);
      if (round.drift <= kMaxDrift || i == kTries || !has_time_again) return round;
    }
  }
  double seconds() const { return options_.seconds ? options_.seconds() : 0; }

  /// Returns the number of repetitions for which a round of `candidates` has time.
  int affordable(int repetitions, std::size_t candidates) const {
    const double of_one = seconds_of_sample_ * static_cast<double>(candidates + 1);
    if (repetitions <= kMinRepetitions || of_one <= 0) return repetitions;
    const double most = kRoundShare * options_.limits.seconds / of_one;
    return static_cast<int>(std::clamp<double>(most, kMinRepetitions, repetitions));
  }

  /// Runs one round over the candidates with fewer samples, then sorts all of them.
  void run_round(std::vector<Runner>& field, int most_repetitions) {
    const int repetitions = affordable(most_repetitions, field.size());
    std::vector<int> ids;
    for (const Runner& r : field)
      if (r.known.samples < repetitions) ids.push_back(r.id);
    if (!ids.empty()) {
      const Round round = steady_round(ids, repetitions);
      for (std::size_t i = 0; i < ids.size(); ++i) take(field, ids[i], round, i);
    }
    std::ranges::stable_sort(field, {}, [](const Runner& r) { return r.known.ratio; });
  }

  void take(std::vector<Runner>& field, int id, const Round& round, std::size_t i) {
    const auto at = std::ranges::find(field, id, &Runner::id);
    const Samples& samples = round.of[i];
    if (samples.verdict != Verdict::ok || samples.ratios.empty()) {
      fail(*at, samples.verdict == Verdict::ok ? Verdict::fault : samples.verdict,
           "while it was timed");
      field.erase(at);
      return;
    }
    const Estimate e = hodges_lehmann(samples.ratios);
    at->known = {at->code.code,    Verdict::ok, round.drift > kMaxDrift, samples.ns, e.value,
                 e.standard_error, e.samples,   round.clock_mhz,         round.watts};
    if (options_.record) options_.record(at->known);
    if (options_.timed) options_.timed(id, at->code, at->known);
    raced_.insert(id);
  }

  /// Returns the best third in order, and all that are as good within noise. Only these are
  /// checked: a wrong candidate costs no more than the first round, and correct ones are compared
  /// only if they are fast.
  std::vector<Runner> survivors(std::vector<Runner> field) {
    const std::size_t count = std::max(kMinSurvivors, (field.size() + kHalving - 1) / kHalving);
    std::vector<Runner> kept;
    const auto is_as_good = [&](const Known& known, const Known& last) {
      return known.ratio <= last.ratio + 2 * std::hypot(known.standard_error, last.standard_error);
    };
    for (Runner& r : field) {
      if (kept.size() >= count && !is_as_good(r.known, kept[count - 1].known)) {
        if (r.id != incumbent_) measure_.forget(r.id);
      } else if (is_correct(r)) {
        kept.push_back(std::move(r));
      }
    }
    return kept;
  }

  bool is_correct(Runner& r) {
    if (!checked_.insert(r.id).second) return true;
    const CheckResult check = measure_.check(r.id);
    if (check.verdict != Verdict::ok) fail(r, check.verdict, check.why);
    return check.verdict == Verdict::ok;
  }

  void halve() {
    for (const int repetitions : kRepetitions) {
      tell("race");
      run_round(runners_, repetitions);
      runners_ = survivors(std::exchange(runners_, {}));
    }
  }

  /// Tries neighbours of the best until two attempts gain less than kMinGain each.
  void descend() {
    int idle = 0;
    while (idle < 2 && has_time(kDescendShare) && !runners_.empty()) {
      const double before = runners_.front().known.ratio;
      std::vector<int> next;
      for (std::size_t i = 0; i < std::min(runners_.size(), kMinSurvivors); ++i)
        for (const int n : options_.neighbours(runners_[i].id))
          if (!tried_.contains(n) && !std::ranges::count(next, n)) next.push_back(n);
      if (next.empty()) return;
      tell("neighbours");
      enter(next);
      halve();
      idle =
          runners_.empty() || runners_.front().known.ratio < before * (1 - kMinGain) ? 0 : idle + 1;
    }
  }

  /// Compares the top three with the incumbent in pairs.
  void finish() {
    std::vector<int> ids;
    for (std::size_t i = 0; i < std::min(runners_.size(), kMinSurvivors); ++i)
      ids.push_back(runners_[i].id);
    if (incumbent_ != 0 && !std::ranges::count(ids, incumbent_)) ids.push_back(incumbent_);
    result_.winner = incumbent_;
    result_.raced = static_cast<int>(raced_.size());
    result_.code = reference_.code.code;
    result_.ratio = result_.ratio_to_incumbent = {1, 1, 1, 0, 0};
    if (ids.empty()) return;
    tell("final");
    const Round round = steady_round(ids, affordable(kFinalPairs, ids.size()));
    decide(ids, round);
  }

  /// Returns the ratios of samples of the same repetition.
  static std::vector<double> quotients(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> out(std::min(a.size(), b.size()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = a[i] / b[i];
    return out;
  }

  void decide(const std::vector<int>& ids, const Round& round) {
    const auto incumbent_at = std::ranges::find(ids, incumbent_);
    std::vector<double> of_incumbent;
    if (incumbent_at != ids.end())
      of_incumbent = round.of[static_cast<std::size_t>(incumbent_at - ids.begin())].ratios;
    struct Finalist {
      int id;
      Estimate ratio, to_incumbent;
      const Runner* runner;
      double ns;
    };
    std::vector<Finalist> finalists;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Samples& s = round.of[i];
      if (s.verdict != Verdict::ok || s.ratios.empty()) continue;
      const auto runner = std::ranges::find(runners_, ids[i], &Runner::id);
      const Estimate ratio = hodges_lehmann(s.ratios);
      const Estimate to_incumbent =
          of_incumbent.empty() ? ratio : hodges_lehmann(quotients(s.ratios, of_incumbent));
      finalists.push_back(
          {ids[i], ratio, to_incumbent, runner == runners_.end() ? nullptr : &*runner, s.ns});
      if (ids[i] == incumbent_) set_result(ids[i], ratio, {1, 1, 1, 0, ratio.samples}, s.ns);
    }
    std::erase_if(finalists, [&](const Finalist& f) {
      return f.runner == nullptr || f.id == incumbent_ || f.to_incumbent.high >= 1 - kMinGain;
    });
    const bool had_any = !finalists.empty();
    const double drift = round.drift > kMaxDrift ? round.drift : 0;
    std::erase_if(finalists, [&](const Finalist& f) {
      return f.to_incumbent.high * (1 + drift) >= 1 - kMinGain;
    });
    result_.is_low_confidence = had_any && finalists.empty();
    if (finalists.empty()) return;
    const double best = std::ranges::min_element(finalists, {}, [](const Finalist& f) {
                          return f.ratio.value;
                        })->ratio.value;
    const Finalist& chosen = *std::ranges::min_element(finalists, {}, [&](const Finalist& f) {
      const bool is_tie = f.ratio.value <= best * (1 + kMinGain);
      return std::tuple(!is_tie, f.runner->code.shared_bytes, f.runner->code.registers,
                        options_.texts[static_cast<std::size_t>(f.id)]);
    });
    set_result(chosen.id, chosen.ratio, chosen.to_incumbent, chosen.ns);
    result_.code = chosen.runner->code.code;
    result_.is_replaced = true;
  }

  void set_result(int id, const Estimate& ratio, const Estimate& to_incumbent, double ns) {
    result_.winner = id;
    result_.ratio = ratio;
    result_.ratio_to_incumbent = to_incumbent;
    result_.ns = ns;
    const auto runner = std::ranges::find(runners_, id, &Runner::id);
    if (runner != runners_.end())
      result_.code = runner->code.code;
    else if (id == incumbent_)
      result_.code = incumbent_code_;
  }

  Measure& measure_;
  const RaceOptions& options_;
  int incumbent_;
  std::string incumbent_code_;
  Runner reference_;
  std::vector<Runner> runners_;
  std::set<std::string> codes_;
  std::set<int> tried_, raced_, checked_;
  std::uint64_t next_seed_ = 0;
  double seconds_of_sample_ = 0;
  RaceResult result_;
};

}  // namespace

const char* name(Verdict verdict) {
  constexpr std::array kNames{"ok", "refused", "wrong", "fault", "timeout"};
  return kNames[static_cast<std::size_t>(verdict)];
}

RaceLimits limits_of(Budget budget) {
  switch (budget) {
    case Budget::off:
      return {0, 0};
    case Budget::quick:
      return {64, 3};
    case Budget::full:
      return {256, 60};
  }
  return {};
}

RaceResult race(Measure& measure, const RaceOptions& options) {
  return Race(measure, options).run();
}

}  // namespace tegula::autotune
