#pragma once
// Candidates with known times, measured with noise: a drift that all kernels of a repetition share,
// noise of their own, and a wild sample now and then.
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "autotune/race/measure.h"

namespace tegula::autotune {

struct SimulatedCandidate {
  double ns = 1000;
  Prepared prepared = {};
  Verdict once = Verdict::ok;
  Verdict check = Verdict::ok;
  Verdict timed = Verdict::ok;
};

class SimulatedMeasure : public Measure {
 public:
  SimulatedMeasure(std::vector<SimulatedCandidate> candidates, unsigned seed, double noise = 0.01)
      : candidates_(std::move(candidates)), random_(seed), noise_(noise) {
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].prepared.code.empty())
        candidates_[i].prepared.code = "code " + std::to_string(i);
  }

  std::vector<Prepared> prepare(std::span<const int> ids) override {
    std::vector<Prepared> out;
    for (const int id : ids) {
      prepared.insert(id);
      out.push_back(of(id).prepared);
    }
    return out;
  }
  CheckResult try_once(int id) override {
    tried.insert(id);
    return {of(id).once, "as planted"};
  }
  CheckResult check(int id) override {
    checked.insert(id);
    return {of(id).check, "as planted"};
  }
  Round round(std::span<const int> ids, int repetitions, std::uint64_t) override {
    if (on_round) on_round();
    ++rounds;
    Round out;
    out.drift = unsteady-- <= 0 ? 0 : drift;
    seconds += seconds_of_ns * repetitions * of(0).ns;
    out.of.resize(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      runs[ids[i]] += repetitions;
      was_tried = was_tried && tried.contains(ids[i]);
      was_checked = was_checked && (repetitions == 5 || checked.contains(ids[i]));
      out.of[i].verdict = of(ids[i]).timed;
      out.of[i].ns = of(ids[i]).ns;
      seconds += seconds_of_ns * repetitions * of(ids[i]).ns;
    }
    for (int r = 0; r < repetitions; ++r) {
      const double clock = 1 + 0.05 * normal_(random_);
      const double reference = time_of(0, clock);
      for (std::size_t i = 0; i < ids.size(); ++i)
        if (out.of[i].verdict == Verdict::ok)
          out.of[i].ratios.push_back(time_of(ids[i], clock) / reference);
    }
    return out;
  }
  void forget(int id) override { forgotten.insert(id); }

  const SimulatedCandidate& of(int id) const { return candidates_[static_cast<std::size_t>(id)]; }
  std::set<int> prepared, tried, checked, forgotten;
  std::map<int, int> runs;
  int rounds = 0;
  int unsteady = 0;  ///< rounds to come that are not steady
  double drift = 0.05;
  double seconds = 0, seconds_of_ns = 0;  ///< of rounds, for each simulated one
  bool was_tried = true;
  bool was_checked = true;  ///< before any round but the first
  std::function<void()> on_round;

 private:
  double time_of(int id, double clock) {
    const double wild = std::uniform_real_distribution<>(0, 1)(random_) < 0.02 ? 1.5 : 1.0;
    return of(id).ns * clock * wild * (1 + noise_ * normal_(random_));
  }

  std::vector<SimulatedCandidate> candidates_;
  std::mt19937 random_;
  std::normal_distribution<> normal_;
  double noise_;
};

}  // namespace tegula::autotune
