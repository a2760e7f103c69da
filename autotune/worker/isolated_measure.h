#pragma once
// Measuring in a process of its own: a candidate that hangs or faults costs that process, and the
// tuner's GPU context stays whole.
#include <chrono>
#include <filesystem>

#include "autotune/user/launch_measure.h"

namespace tegula::autotune {

struct WorkerOptions : LaunchOptions {
  std::filesystem::path program;
  /// A run may take this and twenty times what the reference takes.
  std::chrono::milliseconds patience{2000};
  /// Limit for what depends on nothing that is known: start, loading, and the reference's first
  /// run.
  std::chrono::milliseconds first_patience{60'000};
  /// Candidates that may end the process; later ones are not tried.
  int max_losses = 8;
};

/// Measures in a process that is started now and is ready at the first load(), which throws
/// DeviceError where it is not. Candidates are kernels of a GPU or of `sim`.
std::unique_ptr<LaunchMeasure> measure_in_worker(const MeasuredTensors& tensors, Device device,
                                                 WorkerOptions options);

/// As TEGULA_TUNE_WORKER says: in a worker on a GPU, else here. Where the worker cannot be used it
/// is measured here, too, and T1902 says why, once.
std::unique_ptr<LaunchMeasure> make_launch_measure(const MeasuredTensors& tensors, Device device,
                                                   LaunchOptions options);

}  // namespace tegula::autotune
