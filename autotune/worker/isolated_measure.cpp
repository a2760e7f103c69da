// Choice of the process that measures.
#include "autotune/worker/isolated_measure.h"

#include <atomic>
#include <utility>

#include "autotune/worker/worker_process.h"
#include "runtime/warnings.h"
#include "support/env.h"
#include "support/warnings.h"
#include "tegula/error.h"

namespace tegula::autotune {
namespace {

void tell_once(const std::string& why) {
  static std::atomic<bool> is_told = false;
  if (is_told.exchange(true)) return;
  const Warning warning = runtime::worker_warning(why);
  report_warnings(std::span(&warning, 1));
}

/// Uses a worker; falls back to this process if the worker does not start.
class WorkerOrHere : public LaunchMeasure {
 public:
  WorkerOrHere(const MeasuredTensors& tensors, Device device, const WorkerOptions& options)
      : tensors_(tensors), device_(device), options_(options) {
    attempt([&] { measure_ = measure_in_worker(tensors, device, options); });
  }

  void load(int candidate, LoadedCandidate of) override {
    if (std::exchange(is_settled_, true)) return measure_->load(candidate, std::move(of));
    bool is_loaded = false;
    attempt([&] {
      measure_->load(candidate, of);
      is_loaded = true;
    });
    if (!is_loaded) measure_->load(candidate, std::move(of));
  }
  CheckResult try_once(int candidate) override { return measure_->try_once(candidate); }
  CheckResult check(int candidate) override { return measure_->check(candidate); }
  Round round(std::span<const int> candidates, int repetitions, std::uint64_t seed) override {
    return measure_->round(candidates, repetitions, seed);
  }
  void forget(int candidate) override { measure_->forget(candidate); }
  double reference_ns() const override { return measure_->reference_ns(); }

 private:
  template <class F>
  void attempt(const F& f) {
    try {
      f();
    } catch (const DeviceError& e) {
      tell_once(e.diagnostic().message);
      measure_ = measure_here(tensors_, device_, options_);
      is_settled_ = true;
    }
  }

  const MeasuredTensors& tensors_;
  Device device_;
  WorkerOptions options_;
  std::unique_ptr<LaunchMeasure> measure_;
  bool is_settled_ = false;
};

}  // namespace

std::unique_ptr<LaunchMeasure> make_launch_measure(const MeasuredTensors& tensors, Device device,
                                                   LaunchOptions options) {
  const std::string& given = env().tune_worker;
  if (given == "off" || device.kind == DeviceKind::cpu || (given.empty() && device.on_host()))
    return measure_here(tensors, device, options);
  WorkerOptions in_worker;
  in_worker.may_change_bits = options.may_change_bits;
  in_worker.program = given.empty() ? worker_program() : std::filesystem::path(given);
  return std::make_unique<WorkerOrHere>(tensors, device, in_worker);
}

}  // namespace tegula::autotune
