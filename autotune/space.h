#pragma once
// Spaces of configurations: axes, rules with reasons, enumeration and choice. A family of kernels
// has a Problem (properties of a call), a Config (how it is computed), both with `each_field`
// (autotune/field.h), and a Space. This file is independent of the family.
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

/// Limits of a GPU that decide what can run; its speed does not matter here.
struct Limits {
  ir::Target target;
  int num_sms = 0;
  int leftover_sms = 0;  ///< SMs that cannot run clusters of more than two CTAs at the same time
};
inline Limits limits_of(const DeviceProfile& gpu) {
  const int of = gpu.attention.sms_per_leftover;
  return {ir::Target::of_capability(gpu.capability), gpu.num_sms, of > 0 ? gpu.num_sms / of : 0};
}

/// Consequence of a broken rule.
enum class Severity : std::uint8_t {
  refused,    ///< a kernel cannot be made, or would be wrong
  degraded,   ///< the kernel runs, but on a slower engine or with spilled registers
  dominated,  ///< another configuration of the space is at least as fast on every device
};

/// An axis: values that one field of a configuration takes.
template <class C>
struct Axis {
  std::string_view name;
  void (*set)(C&, int value);
  std::span<const int> values;
};

/// A rule for the configurations of a problem on a target. It reads the fields of the axes up to
/// `last_axis`, so that an enumeration prunes the remaining axes at once.
template <class P, class C>
struct Rule {
  std::string_view name;
  std::string_view reason;  ///< reason to reject a configuration, for logs and errors
  Severity severity;
  int last_axis;
  bool (*is_broken)(const P&, const C&, const Limits&);
  /// If one value of `last_axis` breaks the rule, all later values do, too.
  bool ends_axis = false;
};

template <class P, class C>
struct Space {
  using Problem = P;
  using Config = C;
  std::span<const Axis<C>> axes;
  std::span<const Rule<P, C>> rules;  ///< in the order of `last_axis`
  /// Initial configuration. Fields without an axis follow from problem and target.
  C (*start)(const P&, const Limits&);
  /// Maps configurations that compile to the same kernel to one of them.
  C (*canonical)(C, const P&, const Limits&);
  /// Returns the estimated cycles at DeviceProfile::clock_ghz.
  double (*cycles)(const P&, const C&, const DeviceProfile&);
  /// Returns a hash of the properties that determine result bits: configurations with equal hashes
  /// give identical results. Null: all configurations do.
  std::uint64_t (*numerics)(const P&, const C&, const Limits&) = nullptr;
  /// Fraction of the best time so far that a later configuration must beat to be chosen. Below 1,
  /// earlier (usual) configurations are preferred. Null: 1.
  double (*worthwhile)(const DeviceProfile&) = nullptr;
  /// Returns true if results have equal bits in every run. Null: they always do.
  bool (*is_reproducible)(const P&) = nullptr;

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

/// Returns every rule that a configuration breaks; empty if it is in the space.
template <class P, class C>
std::vector<Reason> why_not(const Space<P, C>& space, const P& problem, const C& config,
                            const Limits& gpu) {
  std::vector<Reason> reasons;
  for (const Rule<P, C>& rule : space.rules)
    if (rule.is_broken(problem, config, gpu))
      reasons.push_back({rule.name, rule.reason, rule.severity});
  return reasons;
}

/// Returns true if a kernel can be made that is not known to be slower. The configuration may be
/// dominated (Severity::dominated): no choice takes it, but a measurement may.
template <class P, class C>
bool is_runnable(const Space<P, C>& space, const P& problem, const C& config, const Limits& gpu) {
  for (const Rule<P, C>& rule : space.rules)
    if (rule.severity != Severity::dominated && rule.is_broken(problem, config, gpu)) return false;
  return space.canonical(config, problem, gpu) == config;
}

/// Maximum number of configurations of an enumeration.
inline constexpr int kMaxCandidates = 4096;

/// Depth-first walk over the axes, the last one fastest. A prefix that breaks a rule is pruned.
template <class P, class C, class Visit>
class Enumeration {
 public:
  Enumeration(const Space<P, C>& space, const P& problem, const Limits& gpu, const Visit& visit)
      : space_(space), problem_(problem), gpu_(gpu), visit_(visit) {}

  int run() {
    walk(space_.start(problem_, gpu_), 0, 0);
    return found_;
  }
  /// Returns the number of prefixes that broke each rule, in the order of the space's rules.
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
  /// Returns true if the rules of this axis hold; advances `rule` past them, or to a broken one.
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

/// Calls `visit(config)` once for each configuration of the space, and returns their number.
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

/// Returns the configuration with the shortest estimated time; the first one if there are ties.
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
