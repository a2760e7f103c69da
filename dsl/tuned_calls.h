#pragma once
// Values of tune() that are chosen for the shapes of a call. The choosing lies above this layer;
// here is where a call asks for it, and where what was chosen is kept.
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "dsl/call_key.h"
#include "tegula/tuning.h"

namespace tegula::dsl {

struct TraceResult;

/// Chooses values for a call of a kernel none of whose tune() values is given; none where the
/// defaults are to be used.
using TuningChooser = std::optional<Tuning> (*)(KernelInstance& kernel, const Stream* stream,
                                                std::span<const HostArg> args, Device device);
/// The process's chooser from now on; null leaves all to the defaults.
void set_tuning_chooser(TuningChooser chooser);

/// All about the shapes of a call: dtypes, extents, strides, alignment, constants.
CallKey shapes_key(const KernelInstance& kernel, std::span<const HostArg> args, Device device);

/// Choices made for the calls of one kernel object. Look-ups take no lock.
class TunedCalls {
 public:
  /// False for a kernel that has nothing to choose.
  bool has_choices() const { return state_.load(std::memory_order_relaxed) == State::chooses; }
  /// Notes after the first trace whether there is anything to choose; true if this trace was the
  /// first and there is, so that the call starts over.
  bool note(const TraceResult& traced, const Tuning& given);
  /// The kernel that a call goes to; null for this one.
  KernelInstance* find(KernelInstance& kernel, const Stream* stream, std::span<const HostArg> args,
                       Device device);
  /// From now on calls of these shapes use the values.
  void set(KernelInstance& kernel, const CallKey& shapes, const Tuning& tuning);
  /// The kernel that the latest call went to; null for this one.
  KernelInstance* latest() const { return latest_.load(std::memory_order_acquire); }

 private:
  enum class State : std::uint8_t { unknown, chooses, nothing };
  static constexpr std::size_t kHeads = 64;
  static constexpr std::size_t kMaxEntries = 4096;  // further shapes use the defaults

  struct Entry {
    CallKey shapes;
    std::shared_ptr<KernelInstance> chosen;  ///< null: the kernel itself
    const Entry* next;
  };
  const Entry* look_up(const CallKey& shapes) const;
  const Entry* add(const CallKey& shapes, std::shared_ptr<KernelInstance> chosen);

  std::atomic<State> state_ = State::unknown;
  std::array<std::atomic<const Entry*>, kHeads> heads_{};
  std::atomic<KernelInstance*> latest_ = nullptr;
  std::mutex mutex_;
  std::vector<std::unique_ptr<const Entry>> entries_;
};

}  // namespace tegula::dsl
