#pragma once
// The kind of a device, as results of tuning are kept for it.
#include <string>

#include "tegula/device.h"

namespace tegula::autotune {

/// Everything that makes times comparable: model, compute capability, SMs, L2, memory, clocks. GPUs
/// of one class share winners. "cpu" and "sim" for the host's devices.
std::string device_class(Device device);

}  // namespace tegula::autotune
