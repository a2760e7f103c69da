#include "tegula/device.h"

#include <charconv>

#include "runtime/context.h"
#include "support/env.h"
#include "support/errors.h"

namespace tegula {
namespace {

/// Parses the value of TEGULA_DEVICE.
Device parse_variable(const std::string& value) {
  try {
    return Device::parse(value, {});
  } catch (const DeviceError& e) {
    throw DeviceError(diagnostic(ErrorId::bad_environment, {}, {}, "TEGULA_DEVICE", value,
                                 e.diagnostic().message, e.diagnostic().hint));
  }
}

}  // namespace

Device Device::parse(std::string_view text, Loc at) {
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
  throw DeviceError(
      diagnostic(ErrorId::unknown_device, at, {}, text, runtime::devices_text(cuda_count())));
}

int Device::cuda_count() noexcept { return runtime::cuda_device_count(); }

Device Device::best() {
  static const Device chosen = [] {
    if (!env().device.empty()) return parse_variable(env().device);
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
