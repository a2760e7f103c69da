#pragma once
// Spaces of configurations: axes, rules with reasons, enumeration, and the choice of one. A family
// of kernels has a Problem (what a call is), a Config (how it is computed), both with `each_field`
// (autotune/field.h), and a Space of them; nothing here knows a family.
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/cost/time_of.h"
#include "autotune/field.h"
#include "ir/target.h"
#include "tegula/device_profile.h"
#include "tegula/error.h"

namespace tegula::autotune {

/// Limits of a GPU; how fast it is has no say in what can run.
struct Limits {
  ir::Target target;
  int num_sms = 0;
  int leftover_sms = 0;  ///< of which no clusters of more than two CTAs are made at once
};
inline Limits limits_of(const DeviceProfile& gpu) {
  const int of = gpu.attention.sms_per_leftover;
  return {ir::Target::of_capability(gpu.capability), gpu.num_sms, of > 0 ? gpu.num_sms / of : 0};
}

/// Consequence of breaking a rule.
enum class Severity : std::uint8_t {
  refused,    ///< no kernel can be made, or it would be wrong
  degraded,   ///< it runs, by a slower engine or with registers spilled
  dominated,  ///< another configuration of the space is at least as fast on every device
};

/// An axis: values that one field of a configuration takes.
template <class C>
struct Axis {
  std::string_view name;
  void (*set)(C&, int value);
  std::span<const int> values;
};

/// A rule that configurations of a problem obey on a target. It reads the fields of axes up to
/// `last_axis`, so that an enumeration drops all that lies behind at once.
template <class P, class C>
struct Rule {
  std::string_view name;
  std::string_view reason;  ///< why a configuration that breaks it is none, for logs and errors
  Severity severity;
  int last_axis;
  bool (*is_broken)(const P&, const C&, const Limits&);
  /// Later values of `last_axis` break it, too, where one does.
  bool ends_axis = false;
};

template <class P, class C>
struct Space {
  using Problem = P;
  using Config = C;
  std::span<const Axis<C>> axes;
  std::span<const Rule<P, C>> rules;  ///< in the order of `last_axis`
  /// The configuration that axes change: fields without an axis follow from problem and target.
  C (*start)(const P&, const Limits&);
  /// Merges configurations that compile alike.
  C (*canonical)(C, const P&, const Limits&);
  /// Estimated cycles of DeviceProfile::clock_ghz.
  double (*cycles)(const P&, const C&, const DeviceProfile&);
  /// Hash of what decides the bits of results: equal for configurations whose results are the same,
  /// bit for bit. Null: for all.
  std::uint64_t (*numerics)(const P&, const C&, const Limits&) = nullptr;
  /// Share of the best time so far below which a configuration that comes later is taken: 1, or
  /// less where a choice of the usual is worth something. Null: 1.
  double (*worthwhile)(const DeviceProfile&) = nullptr;

  std::uint64_t numerics_of(const P& problem, const C& config, const Limits& gpu) const {
    return numerics ? numerics(problem, config, gpu) : 0;
  }
};

/// A broken rule.
struct Reason {
  std::string_view rule, text;
  Severity severity;
  friend bool operator==(const Reason&, const Reason&) = default;
};

/// Every rule that a configuration breaks; none: it is in the space.
template <class P, class C>
std::vector<Reason> why_not(const Space<P, C>& space, const P& problem, const C& config,
                            const Limits& gpu) {
  std::vector<Reason> reasons;
  for (const Rule<P, C>& rule : space.rules)
    if (rule.is_broken(problem, config, gpu))
      reasons.push_back({rule.name, rule.reason, rule.severity});
  return reasons;
}

/// Whether a kernel can be made of it that is not slower for a reason known beforehand. Such a
/// configuration may still be one that no choice takes (Severity::dominated): a measurement may.
template <class P, class C>
bool is_runnable(const Space<P, C>& space, const P& problem, const C& config, const Limits& gpu) {
  for (const Rule<P, C>& rule : space.rules)
    if (rule.severity != Severity::dominated && rule.is_broken(problem, config, gpu)) return false;
  return space.canonical(config, problem, gpu) == config;
}

/// Configurations that an enumeration finds at most.
inline constexpr int kMaxCandidates = 4096;

/// A walk over the axes, the last one fastest. A prefix that breaks a rule is left with all that
/// begins with it.
template <class P, class C, class Visit>
class Enumeration {
 public:
  Enumeration(const Space<P, C>& space, const P& problem, const Limits& gpu, const Visit& visit)
      : space_(space), problem_(problem), gpu_(gpu), visit_(visit) {}

  int run() {
    walk(space_.start(problem_, gpu_), 0, 0);
    return found_;
  }
  /// How many prefixes broke each rule, in the order of the space's rules.
  std::span<const int> rejected() const { return rejected_; }

 private:
  static constexpr std::size_t kMaxRules = 48;

  void walk(C config, std::size_t axis, std::size_t rule) {
    if (axis == space_.axes.size()) {
      if (found_ < kMaxCandidates) ++found_, visit_(config);
      return;
    }
    const Axis<C>& a = space_.axes[axis];
    for (const int value : a.values) {
      a.set(config, value);
      std::size_t next = rule;
      if (is_allowed(config, axis, next))
        walk(config, axis + 1, next);
      else if (space_.rules[next].ends_axis)
        break;
    }
  }
  /// Whether the rules that end with this axis hold; `rule` moves behind them, or to a broken one.
  bool is_allowed(const C& config, std::size_t axis, std::size_t& rule) {
    for (; rule < space_.rules.size(); ++rule) {
      const Rule<P, C>& r = space_.rules[rule];
      if (r.last_axis != static_cast<int>(axis)) break;
      if (r.is_broken(problem_, config, gpu_)) return ++rejected_[rule], false;
    }
    return true;
  }

  const Space<P, C>& space_;
  const P& problem_;
  const Limits& gpu_;
  const Visit& visit_;
  int found_ = 0;
  std::array<int, kMaxRules> rejected_{};
};

/// Calls `visit(config)` for each configuration of the space, each once, and tells how many.
template <class P, class C, class Visit>
int enumerate(const Space<P, C>& space, const P& problem, const Limits& gpu, const Visit& visit) {
  return Enumeration<P, C, Visit>(space, problem, gpu, visit).run();
}

template <class C>
struct Choice {
  C config;
  double estimate_us = 0;
  int candidates = 0;
};

/// The configuration with the shortest estimated time; of several, the one found first.
template <class P, class C>
Choice<C> choose(const P& problem, const Space<P, C>& space, const DeviceProfile& gpu) {
  const Limits limits = limits_of(gpu);
  const double worthwhile = space.worthwhile ? space.worthwhile(gpu) : 1;
  double least = std::numeric_limits<double>::infinity();
  Choice<C> best;
  best.candidates = enumerate(space, problem, limits, [&](const C& config) {
    const double cycles = space.cycles(problem, config, gpu);
    if (cycles >= worthwhile * least) return;
    least = cycles;
    best.config = config;
  });
  if (best.candidates == 0) throw InternalError("no configuration for " + text_of(problem));
  best.estimate_us = microseconds(least, gpu);
  return best;
}

}  // namespace tegula::autotune
