#pragma once
// Time of a kernel, from its work (autotune/cost/work.h) and the rates of a device profile.
#include <string_view>

#include "autotune/cost/work.h"
#include "tegula/device_profile.h"

namespace tegula::autotune {

/// Returns the estimated cycles at DeviceProfile::clock_ghz.
double cycles_of(const Work& work, const DeviceProfile& gpu);

/// Returns the name of the resource that takes the largest part of this time.
std::string_view limit_of(const Work& work, const DeviceProfile& gpu);

inline double microseconds(double cycles, const DeviceProfile& gpu) {
  return cycles / (1000 * gpu.clock_ghz);
}

}  // namespace tegula::autotune
