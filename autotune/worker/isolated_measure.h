#pragma once
// Measurements in a separate process: a candidate that hangs or faults terminates only that
// process, and the tuner's GPU context stays intact.
#include <chrono>
#include <filesystem>

#include "autotune/user/launch_measure.h"

namespace tegula::autotune {

struct WorkerOptions : LaunchOptions {
  std::filesystem::path program;
  /// Time limit of a run, in addition to twenty times that of the reference.
  std::chrono::milliseconds patience{2000};
  /// Time limit of operations without a known duration: start, loading, and the first run of the
  /// reference.
  std::chrono::milliseconds first_patience{60'000};
  /// Maximum number of candidates that terminate the process; later ones are not tried.
  int max_losses = 8;
};

/// Starts a process for measurements, which must be ready at the first load(); else that throws
/// DeviceError. Candidates are kernels for a GPU or for `sim`.
std::unique_ptr<LaunchMeasure> measure_in_worker(const MeasuredTensors& tensors, Device device,
                                                 WorkerOptions options);

/// Measures as TEGULA_TUNE_WORKER specifies: in a worker on a GPU, else in this process. If the
/// worker cannot be used, measures in this process, too, and reports T1902 with the reason once.
std::unique_ptr<LaunchMeasure> make_launch_measure(const MeasuredTensors& tensors, Device device,
                                                   LaunchOptions options);

}  // namespace tegula::autotune
