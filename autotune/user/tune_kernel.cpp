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
  // 2: the reference is the model's choice; 3: winners state the plan fields that they prefer
  constexpr std::int64_t kVersion = 3;
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

struct KnownWinner {
  Winner row;
  dsl::TunedChoice choice;
};

std::optional<KnownWinner> known_winner(dsl::KernelInstance& kernel, const TuningKey& key,
                                        std::span<const dsl::HostArg> args) {
  const std::optional<Winner> row = WinnerTable::of_process().find(key);
  if (!row) return std::nullopt;
  auto choice = parse_choice(row->config);
  if (!choice || !is_legal(kernel, choice->values, args)) return std::nullopt;
  return KnownWinner{*row, std::move(*choice)};
}

/// Returns the winner's choice for a call, without preferred fields that a pass now rejects.
dsl::TunedChoice usable(const KnownWinner& known, const dsl::KernelInstance& kernel,
                        std::span<const dsl::HostArg> args, Device device) {
  const auto& [values, preferred, why] = known.choice;
  return {values, accepted_fields(*kernel.with(values), preferred, args, device),
          fmt::format("tune(): measured earlier: {}\n", known.row.config)};
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
    const std::optional<KnownWinner> known = known_winner(kernel_, key_, args_);
    if (known && !options_.again) return take(*known);
    space_ = discover(kernel_, args_);
    if (const auto start = choose_untuned(kernel_, args_, device_)) put_first(start->values);
    if (space_.settings.size() < 2 && space_.refused.empty())
      fail(ErrorId::nothing_to_tune, kernel_.loc(), {}, kernel_.name());
    // If time is short, the raced settings are spread over the space.
    std::shuffle(space_.settings.begin() + 1, space_.settings.end(), std::mt19937(1));
    StoredRace race = race_over(known);
    UserMeasure measure(kernel_, space_, args_, device_,
                        {options_.may_change_bits, options_.progress});
    const RaceResult result = run_stored(race, measure);
    const auto winner = static_cast<std::size_t>(result.winner);
    const dsl::TunedChoice choice{space_.settings[winner], measure.preferred(result.winner)};
    race.texts[winner] = choice_text(choice);
    publish_winner(race, result);
    use(choice);
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

  TuneResult take(const KnownWinner& known) {
    TuneResult out;
    out.tuning = known.choice.values;
    out.was_known = true;
    out.ratio = known.row.ratio;
    out.ratio_high = known.row.ratio_high;
    out.candidates = static_cast<int>(known.row.candidates);
    use(usable(known, kernel_, args_, device_));
    return out;
  }
  /// Makes later calls use the values and the plan.
  void use(const dsl::TunedChoice& choice) {
    kernel_.tuned.set(kernel_, dsl::shapes_key(kernel_, args_, device_), choice);
  }

  StoredRace race_over(const std::optional<KnownWinner>& known) const {
    say(fmt::format("{} settings, {} of them cannot be traced; the reference is {}",
                    space_.settings.size(), space_.refused.size(), str(space_.settings.front())));
    StoredRace race{key_, limits_of(options_.budget), {}};
    for (const Tuning& s : space_.settings) race.texts.push_back(str(s));
    race.seeds = std::min<int>(static_cast<int>(space_.settings.size()), race.limits.candidates);
    if (known) race.incumbent = str(known->choice.values);
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
  if (const auto known = known_winner(kernel, key_of(kernel, args, device, false), args))
    return usable(*known, kernel, args, device);
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
