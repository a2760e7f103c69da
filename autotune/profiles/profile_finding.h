#pragma once
// Device profiles in the output of `tegula doctor`.
#include <span>

#include "runtime/doctor.h"

namespace tegula::autotune {

/// Reports the row used for each of these GPUs, and whether it is only the nearest one.
runtime::DoctorCheck examine_profiles(std::span<const runtime::DeviceProperties> gpus);

}  // namespace tegula::autotune
