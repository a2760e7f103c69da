#pragma once
// The line of `tegula doctor` about device profiles.
#include <span>

#include "runtime/doctor.h"

namespace tegula::autotune {

/// The row that each of these GPUs is served by, and whether it is only the nearest one.
runtime::DoctorCheck examine_profiles(std::span<const runtime::DeviceProperties> gpus);

}  // namespace tegula::autotune
