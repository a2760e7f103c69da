// Kernel::tune(), and the values of open tune() names in a call of a kernel.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "autotune/device_class.h"
#include "autotune/race/stored_race.h"
#include "autotune/store/winner_table.h"
#include "autotune/user/untuned.h"
#include "autotune/user/user_measure.h"
#include "dsl/errors.h"
#include "dsl/export/kernel_tuner.h"
#include "runtime/stream_state.h"
#include "support/env.h"

namespace tegula::autotune {
namespace {

Device device_of(std::span<const dsl::HostArg> args) {
  for (const dsl::HostArg& a : args)
    if (a.tensor != nullptr && a.tensor->defined()) return a.tensor->device();
  return Device::best();
}

TuningKey key_of(dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args, Device device,
                 bool may_change_bits) {
  constexpr std::int64_t kVersion = 2;  // 2: the reference is the model's choice
  return {device_class(device), "kernel " + kernel.name(), kVersion, problem_text(kernel, args),
          may_change_bits ? kAnyBits : kSameBits};
}

/// Returns true if the kernel can be traced with these values; rows of the store are untrusted
/// data.
bool is_legal(const dsl::KernelInstance& kernel, const Tuning& values,
              std::span<const dsl::HostArg> args) {
  try {
    const auto tuned = kernel.with(values);
    tuned->trace(tuned->signature(args));
    return true;
  } catch (const CompileError&) {
    return false;
  }
}

std::optional<Winner> known_winner(dsl::KernelInstance& kernel, const TuningKey& key,
                                   std::span<const dsl::HostArg> args) {
  std::optional<Winner> winner = WinnerTable::of_process().find(key);
  if (!winner) return std::nullopt;
  const auto values = parse_tuning(winner->config);
  return values && is_legal(kernel, *values, args) ? winner : std::nullopt;
}

class UserTuning {
 public:
  UserTuning(dsl::KernelInstance& kernel, const TuneOptions& options,
             std::span<const dsl::HostArg> args)
      : kernel_(kernel),
        options_(options),
        args_(args),
        device_(device_of(args)),
        key_(key_of(kernel, args, device_, options.may_change_bits)) {}

  TuneResult run() {
    const std::optional<Winner> known = known_winner(kernel_, key_, args_);
    if (known && !options_.again) return take(*known);
    space_ = discover(kernel_, args_);
    if (const auto start = choose_untuned(kernel_, args_, device_)) put_first(start->values);
    if (space_.settings.size() < 2 && space_.refused.empty())
      fail(ErrorId::nothing_to_tune, kernel_.loc(), {}, kernel_.name());
    // If time is short, the raced settings are spread over the space.
    std::shuffle(space_.settings.begin() + 1, space_.settings.end(), std::mt19937(1));
    const StoredRace race = race_over(known);
    UserMeasure measure(kernel_, space_, args_, device_,
                        {options_.may_change_bits, options_.progress});
    const RaceResult result = run_stored(race, measure);
    publish_winner(race, result);
    return result_of(result);
  }

 private:
  void say(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  void put_first(const Tuning& reference) {
    const auto at = std::ranges::find(space_.settings, reference);
    if (at != space_.settings.end()) space_.settings.erase(at);
    space_.settings.insert(space_.settings.begin(), reference);
  }

  TuneResult take(const Winner& winner) {
    TuneResult out;
    out.tuning = *parse_tuning(winner.config);
    out.was_known = true;
    out.ratio = winner.ratio;
    out.ratio_high = winner.ratio_high;
    out.candidates = static_cast<int>(winner.candidates);
    use(out.tuning);
    return out;
  }
  /// Makes later calls use the values.
  void use(const Tuning& values) {
    const PlanPatch preferred = preferred_plan(*kernel_.with(values), args_, device_);
    kernel_.tuned.set(kernel_, dsl::shapes_key(kernel_, args_, device_), {values, preferred});
  }

  StoredRace race_over(const std::optional<Winner>& known) const {
    say(fmt::format("{} settings, {} of them cannot be traced; the reference is {}",
                    space_.settings.size(), space_.refused.size(), str(space_.settings.front())));
    StoredRace race{key_, limits_of(options_.budget), {}};
    for (const Tuning& s : space_.settings) race.texts.push_back(str(s));
    race.seeds = std::min<int>(static_cast<int>(space_.settings.size()), race.limits.candidates);
    if (known) race.incumbent = str(*parse_tuning(known->config));
    race.neighbours = [this](int id) { return neighbours(space_, id); };
    race.say = options_.progress;
    return race;
  }

  TuneResult result_of(const RaceResult& result) {
    TuneResult out;
    out.tuning = space_.settings[static_cast<std::size_t>(result.winner)];
    out.is_replaced = result.is_replaced;
    out.is_low_confidence = result.is_low_confidence;
    out.us = result.ns / 1000;
    out.ratio = result.ratio.value;
    out.ratio_high = result.ratio.high;
    out.candidates = result.raced;
    for (const auto& [values, why] : space_.refused)
      out.rejected.push_back(fmt::format("{}: {}", str(values), why));
    for (const auto& [id, why] : result.rejected)
      out.rejected.push_back(
          fmt::format("{}: {}", str(space_.settings[static_cast<std::size_t>(id)]), why));
    use(out.tuning);
    return out;
  }

  dsl::KernelInstance& kernel_;
  const TuneOptions& options_;
  std::span<const dsl::HostArg> args_;
  Device device_;
  TuningKey key_;
  UserSpace space_;
};

/// A kernel that is called while it is being tuned uses its defaults.
thread_local bool is_tuning = false;
class TuningScope {
 public:
  TuningScope() { is_tuning = true; }
  ~TuningScope() { is_tuning = false; }
};

std::optional<dsl::TunedChoice> choose(dsl::KernelInstance& kernel, const Stream* stream,
                                       std::span<const dsl::HostArg> args, Device device) {
  if (is_tuning) return std::nullopt;
  const auto winner = known_winner(kernel, key_of(kernel, args, device, false), args);
  if (winner) {
    const Tuning values = *parse_tuning(winner->config);
    return dsl::TunedChoice{values, preferred_plan(*kernel.with(values), args, device),
                            fmt::format("tune(): measured earlier: {}\n", winner->config)};
  }
  const bool tunes = env().tune != "off" && device.kind != DeviceKind::cpu &&
                     !(stream != nullptr && runtime::is_recording(*stream));
  if (!tunes) return choose_untuned(kernel, args, device);
  const TuningScope scope;
  TuneOptions options;
  options.budget = env().tune == "full" ? TuneBudget::full : TuneBudget::quick;
  UserTuning(kernel, options, args).run();
  return std::nullopt;  // the tuning has set the values
}

[[maybe_unused]] const bool is_installed = [] {
  dsl::set_tuning_chooser(&choose);
  dsl::set_kernel_tuner(&detail::tune);
  return true;
}();

}  // namespace
}  // namespace tegula::autotune

namespace tegula::detail {

TuneResult tune(dsl::KernelInstance& kernel, const TuneOptions& options,
                std::span<const HostArg> args) {
  const autotune::TuningScope scope;
  return autotune::UserTuning(kernel, options, args).run();
}

}  // namespace tegula::detail
