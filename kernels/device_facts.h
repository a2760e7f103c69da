#pragma once
// What choices of tiles ask of a device. The host's devices compute and choose as an H200 does.
#include "runtime/context.h"
#include "tegula/device.h"

namespace tegula {

inline bool has_wgmma(Device device) { return runtime::default_target(device)->has_wgmma; }

inline int multiprocessors(Device device) {
  constexpr int kOfAnH200 = 132;
  return device.kind == DeviceKind::cuda ? runtime::device_properties(device.index).sm_count
                                         : kOfAnH200;
}

}  // namespace tegula
