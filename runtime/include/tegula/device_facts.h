#pragma once
#include "tegula/device.h"

namespace tegula {

/// What choices of tiles ask of a device. The host's devices compute and choose as an H200 does.
bool has_wgmma(Device device);
int multiprocessors(Device device);

}  // namespace tegula
