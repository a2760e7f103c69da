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
  CheckResult check(int id) override {
    checked.insert(id);
    return {of(id).check, "as planted"};
  }
  Round round(std::span<const int> ids, int repetitions, std::uint64_t) override {
    if (on_round) on_round();
    ++rounds;
    Round out;
    out.is_steady = unsteady-- <= 0;
    out.of.resize(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      runs[ids[i]] += repetitions;
      was_checked = was_checked && checked.contains(ids[i]);
      out.of[i].verdict = of(ids[i]).timed;
      out.of[i].ns = of(ids[i]).ns;
    }
    for (int r = 0; r < repetitions; ++r) {
      const double drift = 1 + 0.05 * normal_(random_);
      const double reference = time_of(0, drift);
      for (std::size_t i = 0; i < ids.size(); ++i)
        if (out.of[i].verdict == Verdict::ok)
          out.of[i].ratios.push_back(time_of(ids[i], drift) / reference);
    }
    return out;
  }
  void forget(int id) override { forgotten.insert(id); }

  const SimulatedCandidate& of(int id) const { return candidates_[static_cast<std::size_t>(id)]; }
  std::set<int> prepared, checked, forgotten;
  std::map<int, int> runs;
  int rounds = 0;
  int unsteady = 0;  ///< rounds to come that are not steady
  bool was_checked = true;
  std::function<void()> on_round;

 private:
  double time_of(int id, double drift) {
    const double wild = std::uniform_real_distribution<>(0, 1)(random_) < 0.02 ? 1.5 : 1.0;
    return of(id).ns * drift * wild * (1 + noise_ * normal_(random_));
  }

  std::vector<SimulatedCandidate> candidates_;
  std::mt19937 random_;
  std::normal_distribution<> normal_;
  double noise_;
};

}  // namespace tegula::autotune
