#pragma once
// Configurations that a tuner tries: the model's first choices, a share outside of them, and single
// steps from the best of these.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autotune/space.h"

namespace tegula::autotune {

/// Texts of configurations, the reference first. The first `seeds` of them enter a race.
struct CandidateList {
  std::vector<std::string> texts;
  std::vector<double> estimates;  ///< in microseconds, by the model
  int seeds = 0;
  int inside = 0;  ///< number of leading entries that are the model's first choices, in its order
  /// For each configuration, the positions of those that differ from it in a single field.
  std::vector<std::vector<int>> neighbours;
};

struct ListOptions {
  int seeds = 64;
  bool may_change_bits = false;
  std::string incumbent = {};  ///< text of the current winner; included if it is runnable
  double outside = 0.25;       ///< fraction of the seeds that the model would not choose
  bool has_steps = true;       ///< adds single steps from the best seeds
};

template <class P, class C>
class CandidateLister {
 public:
  CandidateLister(const Space<P, C>& space, const P& problem, const DeviceProfile& gpu,
                  const C& reference, const ListOptions& options)
      : space_(space),
        problem_(problem),
        gpu_(gpu),
        limits_(limits_of(gpu)),
        options_(options),
        numerics_(space.numerics_of(problem, reference, limits_)),
        random_(hash_of(problem)) {
    add(reference);
  }

  CandidateList run() {
    if (const auto incumbent = parse<C>(options_.incumbent)) add_runnable(*incumbent);
    const std::vector<C> ranked = ranked_by_model();
    const auto most = static_cast<std::size_t>(options_.seeds * (1 - options_.outside));
    for (std::size_t i = 0; i < ranked.size() && made_.size() < most; ++i) add_runnable(ranked[i]);
    const std::size_t inside = made_.size();
    add_outside(ranked);
    const std::size_t seeds = made_.size();
    for (std::size_t i = 0; options_.has_steps && i < std::min(seeds, kSteppedFrom); ++i)
      add_steps(C(made_[i]));
    return {texts(), estimates(), static_cast<int>(seeds), static_cast<int>(inside), neighbours()};
  }

 private:
  static constexpr std::size_t kSteppedFrom = 16;
  static constexpr int kTriesOfEach = 64, kMaxChanges = 3;

  bool add(const C& config) {
    if (!known_.insert(text_of(config)).second) return false;
    made_.push_back(config);
    return true;
  }
  bool add_runnable(const C& config) {
    if (!is_runnable(space_, problem_, config, limits_)) return false;
    const bool keeps_bits = space_.numerics_of(problem_, config, limits_) == numerics_;
    return (keeps_bits || options_.may_change_bits) && add(config);
  }

  std::vector<C> ranked_by_model() const {
    std::vector<std::pair<double, C>> all;
    enumerate(space_, problem_, limits_,
              [&](const C& c) { all.emplace_back(space_.cycles(problem_, c, gpu_), c); });
    std::ranges::stable_sort(all, {}, [](const auto& x) { return x.first; });
    std::vector<C> ranked;
    for (auto& [cycles, config] : all) ranked.push_back(std::move(config));
    return ranked;
  }

  /// Adds configurations of the model with up to three fields changed at random.
  void add_outside(const std::vector<C>& ranked) {
    if (ranked.empty()) return;
    const auto wanted = static_cast<std::size_t>(options_.seeds);
    for (int i = 0; i < kTriesOfEach * options_.seeds && made_.size() < wanted; ++i) {
      C config = ranked[random_() % ranked.size()];
      for (auto changes = 1 + random_() % kMaxChanges; changes > 0; --changes) {
        const Axis<C>& axis = space_.axes[random_() % space_.axes.size()];
        axis.set(config, axis.values[random_() % axis.values.size()]);
      }
      add_runnable(space_.canonical(config, problem_, limits_));
    }
  }

  void add_steps(const C& from) {
    for (const Axis<C>& axis : space_.axes)
      for (const int value : axis.values) {
        C config = from;
        axis.set(config, value);
        add_runnable(space_.canonical(config, problem_, limits_));
      }
  }

  std::vector<std::string> texts() const {
    std::vector<std::string> all;
    for (const C& c : made_) all.push_back(text_of(c));
    return all;
  }

  std::vector<double> estimates() const {
    std::vector<double> all;
    for (const C& c : made_) all.push_back(microseconds(space_.cycles(problem_, c, gpu_), gpu_));
    return all;
  }

  static std::vector<std::string> fields_of(const C& config) {
    std::vector<std::string> fields;
    C::each_field(config, [&](const char*, const auto& field) {
      fields.push_back(field_detail::written(field));
    });
    return fields;
  }
  std::vector<std::vector<int>> neighbours() const {
    std::vector<std::vector<std::string>> fields;
    for (const C& c : made_) fields.push_back(fields_of(c));
    std::vector<std::vector<int>> all(made_.size());
    for (std::size_t i = 0; i < made_.size(); ++i)
      for (std::size_t j = 0; j < made_.size(); ++j) {
        int different = 0;
        for (std::size_t f = 0; f < fields[i].size(); ++f)
          different += fields[i][f] != fields[j][f];
        if (different == 1) all[i].push_back(static_cast<int>(j));
      }
    return all;
  }

  const Space<P, C>& space_;
  const P& problem_;
  const DeviceProfile& gpu_;
  Limits limits_;
  const ListOptions& options_;
  std::uint64_t numerics_;
  std::mt19937_64 random_;
  std::vector<C> made_;
  std::set<std::string> known_;
};

template <class P, class C>
CandidateList list_candidates(const Space<P, C>& space, const P& problem, const DeviceProfile& gpu,
                              const C& reference, const ListOptions& options) {
  return CandidateLister<P, C>(space, problem, gpu, reference, options).run();
}

}  // namespace tegula::autotune
