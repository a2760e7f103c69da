#include "autotune/device_class.h"

#include <fmt/format.h>

#include "runtime/context.h"

namespace tegula::autotune {

std::string device_class(Device device) {
  if (device.kind != DeviceKind::cuda) return device.str();
  const runtime::DeviceProperties& gpu = runtime::device_properties(device.index);
  return fmt::format("{} cc={}.{} sms={} l2={} memory={}G bus={} mhz={} memory_mhz={}", gpu.name,
                     gpu.compute_major, gpu.compute_minor, gpu.sm_count, gpu.l2_bytes,
                     gpu.memory_bytes >> 30, gpu.memory_bus_bits, gpu.clock_khz / 1000,
                     gpu.memory_clock_khz / 1000);
}

}  // namespace tegula::autotune
