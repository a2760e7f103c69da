#include "tegula/device_facts.h"

#include "runtime/context.h"

namespace tegula {

bool has_wgmma(Device device) { return runtime::default_target(device) == "sm_90a"; }

int multiprocessors(Device device) {
  constexpr int kOfAnH200 = 132;
  return device.kind == DeviceKind::cuda ? runtime::device_properties(device.index).sm_count
                                         : kOfAnH200;
}

}  // namespace tegula
