#pragma once
// Measures the rates of a GPU in about a second.
#include "autotune/calibration/rates.h"

namespace tegula::autotune {

/// Compiles five small kernels and times them. Throws DeviceError if the driver fails or times are
/// invalid, and CompileError if nothing compiles on this machine.
MeasuredRates measure_rates(Device gpu);

/// Returns true if this device uses the row of another model and has not been measured itself.
bool needs_calibration(Device device);

/// Measures and stores the rates of a device that needs calibration; called before a tuning.
/// Failures are ignored, and the nearest row is used. Runs once per process and GPU.
void calibrate_unknown(Device device);

}  // namespace tegula::autotune
