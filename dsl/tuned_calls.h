#pragma once
// Values of tune() that are chosen for the shapes of a call. The chooser is in a higher layer;
// calls reach it through this hook, and its choices are kept here.
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsl/call_key.h"
#include "tegula/plan_patch.h"
#include "tegula/tuning.h"

namespace tegula::dsl {

struct TraceResult;

struct TunedChoice {
  Tuning values;
  PlanPatch preferred = {};  ///< fields of the plan that suit the shapes
  std::string why = {};      ///< lines of explain()
};
/// Chooses the tune() values for a call of a kernel that are not given. Returns nothing if the
/// defaults must be used.
using TuningChooser = std::optional<TunedChoice> (*)(KernelInstance& kernel, const Stream* stream,
                                                     std::span<const HostArg> args, Device device);
/// Sets the process's chooser; null leaves all values at their defaults.
void set_tuning_chooser(TuningChooser chooser);

/// Returns a key of the shapes of a call: dtypes, extents, strides, alignment, constants.
CallKey shapes_key(const KernelInstance& kernel, std::span<const HostArg> args, Device device);

/// Choices made for the calls of one kernel object. Look-ups take no lock.
class TunedCalls {
 public:
  /// Returns false for a kernel that has nothing to choose.
  bool has_choices() const { return state_.load(std::memory_order_relaxed) == State::chooses; }
  /// Notes after the first trace whether there is anything to choose. Returns true if this trace
  /// was the first and there is, so that the call starts over.
  bool note(const TraceResult& traced, const Tuning& given);
  /// Returns the kernel that a call must run, or null if it is this one.
  KernelInstance* find(KernelInstance& kernel, const Stream* stream, std::span<const HostArg> args,
                       Device device);
  /// Makes later calls of these shapes use the measured values.
  void set(KernelInstance& kernel, const CallKey& shapes, const TunedChoice& measured);
  /// Returns the kernel that the latest call ran, or null if it was this one.
  KernelInstance* latest() const {
    const Entry* const entry = latest_.load(std::memory_order_acquire);
    return entry ? entry->chosen.get() : nullptr;
  }
  /// Returns why the latest call ran with its values; empty if nothing was chosen.
  std::string why() const {
    const Entry* const entry = latest_.load(std::memory_order_acquire);
    return entry ? entry->why : std::string();
  }

  /// State of the chooser between calls. `choosing` protects it.
  std::shared_ptr<void> chooser_state;
  std::mutex choosing;

 private:
  enum class State : std::uint8_t { unknown, chooses, nothing };
  static constexpr std::size_t kHeads = 64;
  static constexpr std::size_t kMaxEntries = 4096;  // later shapes are decided at each call

  struct Entry {
    CallKey shapes;
    std::shared_ptr<KernelInstance> chosen;  ///< null: the kernel itself
    std::string why;
    const Entry* next;
  };
  const Entry* look_up(const CallKey& shapes) const;
  std::shared_ptr<KernelInstance> chosen_by(KernelInstance& kernel,
                                            const std::optional<TunedChoice>& choice);
  const Entry* add(const CallKey& shapes, std::shared_ptr<KernelInstance> chosen, std::string why);

  std::atomic<State> state_ = State::unknown;
  std::array<std::atomic<const Entry*>, kHeads> heads_{};
  std::atomic<const Entry*> latest_ = nullptr;
  std::mutex mutex_;  ///< guards the members below
  std::vector<std::unique_ptr<const Entry>> entries_;
  /// One instance for each choice of values and preferred fields.
  std::map<std::pair<Tuning, std::string>, std::shared_ptr<KernelInstance>> instances_;
};

}  // namespace tegula::dsl
