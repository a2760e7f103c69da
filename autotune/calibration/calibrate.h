#pragma once
// Measures the rates of a GPU in about a second.
#include "autotune/calibration/rates.h"

namespace tegula::autotune {

/// Compiles five small kernels and times them. Throws DeviceError where the driver fails or times
/// are none, CompileError where nothing compiles here.
MeasuredRates measure_rates(Device gpu);

/// Whether choices for this device rest on a row of another model, and nothing was measured on its
/// own.
bool needs_calibration(Device device);

/// Measures and keeps the rates of such a device; no others. A tuning does so before it begins. A
/// failure is no error: the nearest row serves. One attempt a process and GPU.
void calibrate_unknown(Device device);

}  // namespace tegula::autotune
