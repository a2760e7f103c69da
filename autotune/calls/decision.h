#pragma once
// Decisions of a library call, made while its plan is built: by the winner measured for the
// problem, else by the nearest winner that the model confirms, else by the model. While a tuner
// builds its own plans, it makes the decisions.
#include <cmath>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autotune/calls/candidate_list.h"
#include "autotune/device_class.h"
#include "autotune/store/winner_table.h"

namespace tegula::autotune {

/// A family of kernels whose configurations are decided in one way. The version is incremented when
/// the meaning of a field changes, which invalidates older winners.
struct Family {
  std::string_view name;
  std::int64_t version = 1;
};

/// A type-erased decision of one call.
struct Decision {
  std::string family;
  std::int64_t version = 1;
  std::string problem;
  std::string by_default;  ///< the model's configuration
  /// Returns true if the configuration is runnable and, unless may_change_bits, keeps the default's
  /// bits.
  std::function<bool(const std::string&, bool may_change_bits)> is_usable;
  std::function<CandidateList(const ListOptions&)> list;
  bool is_reproducible = true;  ///< results have equal bits in every run

  std::pair<std::string, std::string> key() const { return {family, problem}; }
};

/// Overrides the decisions of this thread with `given`, else the model's choices, and records them.
class DecisionScope {
 public:
  using Given = std::map<std::pair<std::string, std::string>, std::string>;

  explicit DecisionScope(const Given& given);
  ~DecisionScope();
  DecisionScope(const DecisionScope&) = delete;
  DecisionScope& operator=(const DecisionScope&) = delete;
  static DecisionScope* current();

  /// Records a decision; returns the configuration given for it, or nullopt.
  std::optional<std::string> note(Decision decision);
  /// Returns each decision once, in the order of first use.
  const std::vector<Decision>& noted() const { return noted_; }

 private:
  const Given& given_;
  std::vector<Decision> noted_;
  DecisionScope* outer_;
};

/// Returns the winner of this problem that calls of the process use: one tuned by this process,
/// even if it changes bits of the results, else a stored one that does not.
std::optional<std::string> usable_winner(const std::string& device, const Family& family,
                                         const std::string& problem);
/// Makes later calls of this process use `config`.
void use_winner(const std::string& device, const std::string& family, const std::string& problem,
                const std::string& config);
/// Returns the store's winners of a family that do not change bits of the results.
WinnerTable::Family winners_of(const std::string& device, const Family& family);

/// Returns the distance of two problems in their extents, which are the 64-bit fields: the sum of
/// the absolute base-2 logarithms of their ratios. Returns nullopt if another field differs.
template <Fields P>
std::optional<double> distance(const P& a, const P& b) {
  std::vector<std::pair<bool, double>> of_a;
  const auto entry = [](const auto& field) -> std::pair<bool, double> {
    using F = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::same_as<F, std::int64_t>)
      return {true, std::log2(static_cast<double>(std::max<std::int64_t>(field, 1)))};
    else
      return {false, static_cast<double>(field)};
  };
  P::each_field(a, [&](const char*, const auto& field) { of_a.push_back(entry(field)); });
  double sum = 0;
  bool is_alike = true;
  std::size_t i = 0;
  P::each_field(b, [&](const char*, const auto& field) {
    const auto [is_extent, value] = entry(field);
    if (is_extent)
      sum += std::abs(of_a[i].second - value);
    else
      is_alike = is_alike && of_a[i].second == value;
    ++i;
  });
  return is_alike ? std::optional(sum) : std::nullopt;
}

/// Returns the winner of the nearest problem. Only problems at a distance below 1/2 are considered,
/// and only winners that the model estimates to be at most 3 % slower than its own choice.
template <class P, class C>
std::optional<C> nearest_winner(const std::string& device, const Family& family, const P& problem,
                                const Space<P, C>& space, const DeviceProfile& gpu,
                                const C& model) {
  constexpr double kFarthest = 0.5, kTrusted = 1.03;
  const Limits limits = limits_of(gpu);
  const auto winners = winners_of(device, family);
  std::optional<C> best;
  double least = kFarthest;
  for (const Winner& w : *winners) {
    const auto other = parse<P>(w.key.problem);
    const auto config = parse<C>(w.config);
    if (!other || !config || w.key.numerics != kSameBits) continue;
    const auto away = distance(problem, *other);
    if (!away || *away >= least || !is_runnable(space, problem, *config, limits)) continue;
    if (space.numerics_of(problem, *config, limits) != space.numerics_of(problem, model, limits))
      continue;
    if (space.cycles(problem, *config, gpu) > kTrusted * space.cycles(problem, model, gpu))
      continue;
    least = *away;
    best = config;
  }
  return best;
}

/// Makes a decision of a call on this device. The only place where winners override the model.
template <class P, class C>
C decide(const Family& family, const P& problem, const Space<P, C>& space, Device device) {
  const DeviceProfile& gpu = device_profile(device);
  const C model = choose(problem, space, gpu).config;
  const Limits limits = limits_of(gpu);
  if (DecisionScope* scope = DecisionScope::current()) {
    const auto is_usable = [=, &space](const std::string& text, bool may_change_bits) {
      const auto config = parse<C>(text);
      return config && is_runnable(space, problem, *config, limits) &&
             (may_change_bits || space.numerics_of(problem, *config, limits) ==
                                     space.numerics_of(problem, model, limits));
    };
    const auto list = [=, &space](const ListOptions& options) {
      return list_candidates(space, problem, gpu, model, options);
    };
    const auto given =
        scope->note({std::string(family.name), family.version, text_of(problem), text_of(model),
                     is_usable, list, !space.is_reproducible || space.is_reproducible(problem)});
    return given ? parse<C>(*given).value_or(model) : model;
  }
  if (device.kind == DeviceKind::cpu) return model;  // tiles do not affect the interpreter's time
  const std::string name = device_class(device);
  if (const auto text = usable_winner(name, family, text_of(problem)))
    if (const auto config = parse<C>(*text); config && is_runnable(space, problem, *config, limits))
      return *config;
  return nearest_winner(name, family, problem, space, gpu, model).value_or(model);
}

}  // namespace tegula::autotune
