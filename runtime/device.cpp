#include "tegula/device.h"

#include <charconv>

#include "runtime/context.h"
#include "support/env.h"
#include "tegula/error.h"

namespace tegula {

Device Device::parse(std::string_view text) {
  if (text == "cpu") return cpu();
  if (text == "sim") return sim();
  if (text == "cuda") return cuda(0);
  constexpr std::string_view kPrefix = "cuda:";
  if (text.substr(0, kPrefix.size()) == kPrefix) {
    int index = -1;
    const char* first = text.data() + kPrefix.size();
    const char* last = text.data() + text.size();
    const auto [end, fault] = std::from_chars(first, last, index);
    if (fault == std::errc() && end == last && index >= 0) return cuda(index);
  }
  throw DeviceError("there is no device called '" + std::string(text) +
                    "'; devices are cpu, sim, cuda and cuda:N");
}

int Device::cuda_count() noexcept { return runtime::cuda_device_count(); }

Device Device::best() {
  static const Device chosen = [] {
    if (!env().device.empty()) return parse(env().device);
    return cuda_count() > 0 ? cuda(0) : cpu();
  }();
  return chosen;
}

std::string Device::str() const {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::sim:
      return "sim";
    case DeviceKind::cuda:
      break;
  }
  return "cuda:" + std::to_string(index);
}

}  // namespace tegula
