#pragma once
// The time of a kernel: its work (autotune/cost/work.h) by the rates of a device profile.
#include "autotune/cost/work.h"
#include "tegula/device_profile.h"

namespace tegula::autotune {

/// Estimated cycles of DeviceProfile::clock_ghz.
double cycles_of(const Work& work, const DeviceProfile& gpu);

inline double microseconds(double cycles, const DeviceProfile& gpu) {
  return cycles / (1000 * gpu.clock_ghz);
}

}  // namespace tegula::autotune
