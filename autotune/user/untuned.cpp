#include "autotune/user/untuned.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "autotune/cost/time_of.h"
#include "autotune/user/traced_work.h"
#include "autotune/user/user_space.h"

namespace tegula::autotune {
namespace {

/// A combination of values: what its trace calls, and the kernel with its plan.
struct Traced {
  std::shared_ptr<dsl::KernelInstance> instance;
  std::string signature;
  std::vector<dsl::Tunable> tunables;
  ir::Kernel kernel;
  ir::Plan plan;
  std::optional<ir::Plan> multicast = {};  ///< the plan that multicasts, if it is another
  /// Rejections of either plan by a later pass; empty: none, nothing: not tried.
  std::optional<std::string> rejection = {}, multicast_rejection = {};
};

constexpr PlanPatch kMulticast{.multicast = true};

/// Returns the plan that multicasts if the author has not decided and the kernel supports it.
std::optional<ir::Plan> multicast_plan(ir::Kernel& kernel, const ir::Plan& plan,
                                       const dsl::KernelOptions& options) {
  const bool is_decided = options.preferred.multicast || options.planned.fields().multicast;
  // The pass has exchanged the operands of a plan with swap_ab, and would do so again.
  if (is_decided || plan.multicast || !plan.wgmma || !plan.persistent || plan.swap_ab)
    return std::nullopt;
  const auto info = kernel.info;
  const ir::Plan other = plan_again(kernel, options.planned, kMulticast);
  kernel.info = info;
  return other.multicast ? std::optional(other) : std::nullopt;
}

/// Returns nothing for values that the kernel or a pass rejects.
std::optional<Traced> traced_with(const dsl::KernelInstance& kernel, const Tuning& values,
                                  std::span<const dsl::HostArg> args, ir::Target target) {
  try {
    auto tuned = kernel.with(values);
    dsl::TraceResult trace = tuned->trace(tuned->signature(args));
    trace.kernel.info.target = target;
    const ir::Plan plan = plan_of(trace.kernel, tuned->options().planned);
    const auto multicast = multicast_plan(trace.kernel, plan, tuned->options());
    return Traced{std::move(tuned),
                  trace.signature.text(),
                  std::move(trace.tunables),
                  std::move(trace.kernel),
                  plan,
                  multicast};
  } catch (const CompileError&) {
    return std::nullopt;
  }
}

/// Traces by signature and values. Shapes of one signature share them.
struct TraceCache {
  static constexpr std::size_t kMaxSignatures = 8;
  using OfSignature = std::map<Tuning, std::optional<Traced>>;
  std::map<std::string, OfSignature> signatures;
};

/// Devices of a target and size choose alike, so that results have the same bits on all of them.
const DeviceProfile& profile_of(Device device) {
  const DeviceProfile &own = device_profile(device), &host = host_profile();
  return own.capability == host.capability && own.num_sms == host.num_sms ? host : own;
}

/// An estimate of a call with one of the plans.
struct Estimate {
  double cycles = 0;
  Work work;
  PlanPatch preferred = {};
};

Estimate estimate_of(const Traced& traced, std::span<const dsl::HostArg> args,
                     const DeviceProfile& gpu) {
  const std::vector<dsl::HostArg> run_time = traced.instance->run_time_args(args);
  const auto with = [&](const ir::Plan& plan, const PlanPatch& preferred) {
    Estimate e{0, work_of(traced.kernel, plan, run_time), preferred};
    e.cycles = cycles_of(e.work, gpu);
    return e;
  };
  Estimate best = with(traced.plan, {});
  if (!traced.multicast) return best;
  Estimate other = with(*traced.multicast, kMulticast);
  return other.cycles < best.cycles ? other : best;
}

struct Ranked {
  Tuning values;
  Estimate estimate;
  Traced* traced;

  double cycles() const { return estimate.cycles; }
};

class Comparison {
 public:
  Comparison(const dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args,
             const DeviceProfile& gpu, TraceCache::OfSignature& traces)
      : kernel_(kernel),
        args_(args),
        gpu_(gpu),
        target_(ir::Target::of_capability(gpu.capability)),
        traces_(traces) {}

  void run() {
    const auto first = compare(kernel_.tuning());
    std::size_t combinations = 1;
    if (first)
      for (const dsl::Tunable& t : *first)
        if (varies(t) && !kernel_.tuning().contains(t.name))
          combinations *= std::min(t.set.size(), 2 * kMaxCompared);
    if (first && combinations == 1)
      ranking_.clear();  // nothing to choose
    else if (first && combinations > (most_ = most_of(*ranking_.front().traced)))
      descend();
    else
      walk_settings(kernel_.tuning(), [&](const Tuning& v) { return compare(v); }, varies, most_);
    std::ranges::stable_sort(ranking_, {}, &Ranked::cycles);
  }
  const std::vector<Ranked>& ranking() const { return ranking_; }

  /// Returns the lines of explain().
  std::string text(const Ranked& chosen) const {
    constexpr std::size_t kShown = 5;
    std::string lines = fmt::format(
        "tune(): {}, the shortest estimate of {} combinations on {} (docs/untuned.md)\n",
        str(chosen.values), ranking_.size(), gpu_.name);
    for (std::size_t i = 0; i < std::min(kShown, ranking_.size()); ++i) lines += line(ranking_[i]);
    return lines;
  }

 private:
  static bool varies(const dsl::Tunable& t) { return !t.has_default; }

  /// Returns how many combinations of such a kernel a first call has time for.
  static std::size_t most_of(const Traced& traced) {
    constexpr std::size_t kOps = 12000, kLeast = 24;
    return std::clamp(kOps / std::max<std::size_t>(traced.kernel.op_count(), 1), kLeast,
                      kMaxCompared);
  }

  /// Estimates the time with these values; returns the kernel's tune() calls, or null if it rejects
  /// them.
  const std::vector<dsl::Tunable>* compare(const Tuning& values) {
    auto [at, is_new] = traces_.try_emplace(values, std::nullopt);
    // A trace may have requested extents of which the kernel with the defaults knows nothing.
    if (is_new ||
        (at->second && at->second->instance->signature(args_).text() != at->second->signature))
      at->second = traced_with(kernel_, values, args_, target_);
    ++compared_;
    if (!at->second) return nullptr;
    Traced& traced = *at->second;
    Ranked ranked{kernel_.tuning(), estimate_of(traced, args_, gpu_), &traced};
    for (const dsl::Tunable& t : traced.tunables) ranked.values[t.name] = t.value;
    if (std::ranges::find(ranking_, ranked.values, &Ranked::values) == ranking_.end())
      ranking_.push_back(std::move(ranked));
    return &traced.tunables;
  }

  /// Changes one name after another to its best value, until none improves.
  void descend() {
    for (bool is_better = true; is_better;) {
      is_better = false;
      const Ranked start = best();
      for (const dsl::Tunable& t : start.traced->tunables) {
        for (const int v : t.set) {
          Tuning values = best().values;
          const double before = best().cycles();
          if (!varies(t) || kernel_.tuning().contains(t.name) || values[t.name] == v) continue;
          if (compared_ >= most_) return;
          values[t.name] = v;
          compare(values);
          is_better |= best().cycles() < before;
        }
      }
    }
  }
  const Ranked& best() const { return *std::ranges::min_element(ranking_, {}, &Ranked::cycles); }

  std::string line(const Ranked& r) const {
    const Work& w = r.estimate.work;
    const std::string dots =
        w.mma_columns == 0
            ? std::string()
            : fmt::format(", {}, {} stages{}", w.engine == MmaEngine::wgmma ? "wgmma" : "mma.sync",
                          r.traced->plan.stages, w.is_multicast ? ", multicast" : "");
    return fmt::format("  {}: {:.1f} us, limited by {}: {:.0f} tiles, {} CTAs on an SM{}\n",
                       str(r.values), microseconds(r.cycles(), gpu_), limit_of(w, gpu_), w.tiles,
                       w.ctas_per_sm, dots);
  }

  const dsl::KernelInstance& kernel_;
  std::span<const dsl::HostArg> args_;
  const DeviceProfile& gpu_;
  ir::Target target_;
  TraceCache::OfSignature& traces_;
  std::vector<Ranked> ranking_;
  std::size_t compared_ = 0, most_ = kMaxCompared;
};

/// Returns why a pass rejects a kernel, or an empty text. Other values may avoid a fault of the
/// compiler, too.
std::string rejection_of(dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args,
                         Device device) {
  try {
    kernel.launcher.try_passes(kernel, device, args);
  } catch (const CompileError& e) {
    return e.diagnostic().message;
  } catch (const InternalError& e) {
    return e.message();
  }
  return {};
}

/// Returns the same for the values of a trace and a plan that it estimates.
const std::string& rejection_of(Traced& traced, const PlanPatch& preferred,
                                std::span<const dsl::HostArg> args, Device device) {
  auto& known = preferred == kMulticast ? traced.multicast_rejection : traced.rejection;
  if (!known) known = rejection_of(*traced.instance->preferring(preferred), args, device);
  return *known;
}

}  // namespace

std::optional<dsl::TunedChoice> choose_untuned(dsl::KernelInstance& kernel,
                                               std::span<const dsl::HostArg> args, Device device) {
  const std::lock_guard lock(kernel.tuned.choosing);
  if (!kernel.tuned.chooser_state) kernel.tuned.chooser_state = std::make_shared<TraceCache>();
  auto& signatures = static_cast<TraceCache*>(kernel.tuned.chooser_state.get())->signatures;
  const std::string signature = kernel.signature(args).text();
  if (!signatures.contains(signature) && signatures.size() >= TraceCache::kMaxSignatures)
    signatures.clear();
  Comparison comparison(kernel, args, profile_of(device), signatures[signature]);
  comparison.run();
  std::string rejected;
  for (const Ranked& r : comparison.ranking()) {
    for (const PlanPatch& preferred : {r.estimate.preferred, PlanPatch()}) {
      const std::string& why = rejection_of(*r.traced, preferred, args, device);
      if (why.empty()) return dsl::TunedChoice{r.values, preferred, comparison.text(r) + rejected};
      rejected += fmt::format("  {} is rejected: {}\n", choice_text({r.values, preferred}), why);
      if (preferred == PlanPatch()) break;
    }
  }
  return std::nullopt;
}

PlanPatch accepted_fields(const dsl::KernelInstance& kernel, const PlanPatch& preferred,
                          std::span<const dsl::HostArg> args, Device device) {
  if (preferred == PlanPatch()) return preferred;
  return rejection_of(*kernel.preferring(preferred), args, device).empty() ? preferred
                                                                           : PlanPatch();
}

PlanPatch preferred_plan(const dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args,
                         Device device) {
  const DeviceProfile& gpu = profile_of(device);
  const auto traced = traced_with(kernel, {}, args, ir::Target::of_capability(gpu.capability));
  if (!traced) return {};
  return accepted_fields(kernel, estimate_of(*traced, args, gpu).preferred, args, device);
}

}  // namespace tegula::autotune
