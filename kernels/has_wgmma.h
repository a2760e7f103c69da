#pragma once
// What a device's tensor cores take.
#include "runtime/context.h"
#include "tegula/device.h"

namespace tegula {

/// The host's devices compute as such a GPU does.
inline bool has_wgmma(Device device) {
  return device.kind != DeviceKind::cuda ||
         runtime::device_properties(device.index).compute() >= 90;
}

}  // namespace tegula
