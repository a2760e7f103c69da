#pragma once
// Device classes, which key the results of tuning.
#include <string>

#include "tegula/device.h"

namespace tegula::autotune {

/// Returns all that makes times comparable: model, compute capability, SMs, L2, memory, clocks.
/// GPUs of one class share winners. The host's devices give "cpu" and "sim".
std::string device_class(Device device);

}  // namespace tegula::autotune
