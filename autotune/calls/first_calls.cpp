#include "autotune/calls/first_calls.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "autotune/calibration/calibrate.h"
#include "autotune/calls/decision.h"
#include "autotune/calls/tune_calls.h"
#include "runtime/stream_state.h"
#include "support/env.h"
#include "support/generation.h"

namespace tegula::autotune {
namespace {

/// The work of this thread, or null.
thread_local const FirstCallWork* work_of_thread = nullptr;
/// True while the work runs: it handles its own calls.
thread_local bool is_working = false;

template <class T>
class Exchanged {
 public:
  Exchanged(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  ~Exchanged() { place_ = before_; }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  T& place_;
  T before_;
};

bool has_pointers(std::span<const dsl::HostArg> args) {
  return std::ranges::any_of(args, [](const dsl::HostArg& a) {
    return a.kind == dsl::ParamKind::Pointer && a.tensor == nullptr && a.bits != 0;
  });
}

/// Tunes a call as TEGULA_TUNE specifies.
void tune_by_environment(const dsl::FirstCall& call) {
  TuneOptions options;
  options.budget = env().tune == "full" ? TuneBudget::full : TuneBudget::quick;
  tune_call(call, options, limits_of(options.budget));
}

void on_first_call(const dsl::FirstCall& call) {
  const bool by_environment = env().tune != "off" && call.stream().device().kind != DeviceKind::cpu;
  if (is_working || DecisionScope::current() || !(work_of_thread || by_environment)) return;
  if (runtime::is_recording(call.stream()) || has_pointers(call.args())) return;
  const Exchanged<bool> now(is_working, true);
  static std::mutex one_at_a_time;  // concurrent tunings would disturb each other's times
  const std::lock_guard lock(one_at_a_time);
  call.stream().synchronize();  // copies are made on another stream
  calibrate_unknown(call.stream().device());
  if (work_of_thread)
    (*work_of_thread)(call);
  else
    tune_by_environment(call);
}

[[maybe_unused]] const bool is_installed = [] {
  dsl::set_first_call_hook(&on_first_call);
  return true;
}();

}  // namespace

void on_first_calls(const std::function<void()>& calls, const FirstCallWork& work) {
  const Exchanged<const FirstCallWork*> now(work_of_thread, &work);
  begin_generation();  // makes every call a first call again
  calls();
}

}  // namespace tegula::autotune
