#pragma once
// Runs compiled candidates on copies of a call's arguments, compares their results with those of
// candidate 0 (the reference) and times them, in this process or in one that may hang and fault.
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "autotune/race/measure.h"
#include "autotune/user/argument_copies.h"
#include "runtime/compiled_kernel.h"

namespace tegula::autotune {

struct MeasuredLaunch {
  std::shared_ptr<const runtime::CompiledKernel> kernel;
  MeasuredArgs args;
};
/// The launches of a candidate, in order.
struct LoadedCandidate {
  std::vector<MeasuredLaunch> launches;
  /// Sizes in bytes of the candidate's own tensors (partial results, counters), which are zeroed
  /// before its first run.
  std::vector<std::int64_t> made = {};
};

class LaunchMeasure {
 public:
  virtual ~LaunchMeasure() = default;

  /// Prepares a candidate to run. Throws Error if that is not possible.
  virtual void load(int candidate, LoadedCandidate of) = 0;
  /// See Measure. The reference must be checked before any other candidate runs; if it fails, this
  /// throws Error.
  virtual CheckResult try_once(int candidate) = 0;
  virtual CheckResult check(int candidate) = 0;
  virtual Round round(std::span<const int> candidates, int repetitions, std::uint64_t seed) = 0;
  virtual void forget(int candidate) = 0;
  /// Returns the nanoseconds of a call of the reference; 0 before the first round.
  virtual double reference_ns() const = 0;
};

struct LaunchOptions {
  /// Results may differ from those of the reference in their last bits.
  bool may_change_bits = false;
};

/// Measures in this process on `device`, which must contain the tensors. A candidate that hangs or
/// faults affects the process or its GPU context. `tensors` must outlive this object.
std::unique_ptr<LaunchMeasure> measure_here(const MeasuredTensors& tensors, Device device,
                                            LaunchOptions options);

/// Times calls, by events of the device or by the host's clock.
class CallTimer {
 public:
  virtual ~CallTimer() = default;
  /// Queues a sample: `call(i)` for i = 0 .. calls - 1, with a cold L2 before the first call.
  virtual void add(int calls, const std::function<void(int)>& call) = 0;
  /// Waits, and returns the nanoseconds per call of each sample since the last finish().
  virtual std::vector<double> finish() = 0;
};
std::unique_ptr<CallTimer> make_timer(const Stream& stream);

}  // namespace tegula::autotune
