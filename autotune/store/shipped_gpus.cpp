#include "autotune/store/shipped_gpus.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "autotune/store/store_text.h"

namespace tegula::autotune {
namespace {

/// Returns the readable entries of a folder; does not throw.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    entries.push_back(at->path());
  return entries;
}

/// Returns the device class of the first winner in a folder's files, or an empty string.
std::string class_in(const std::filesystem::path& folder) {
  for (const std::filesystem::path& family : entries_of(folder)) {
    std::ifstream in(family);
    std::string line;
    std::getline(in, line);
    if (const auto row = row_of<Winner>(line)) return row->key.device;
  }
  return {};
}

/// Parses a class in the format of device_class().
std::optional<runtime::DeviceProperties> properties_of(const std::string& device_class) {
  runtime::DeviceProperties gpu;
  const std::size_t end = device_class.find(" cc=");
  if (end == std::string::npos) return std::nullopt;
  gpu.name = device_class.substr(0, end);
  const int read = std::sscanf(
      device_class.c_str() + end, " cc=%d.%d sms=%d l2=%zu memory=%zuG bus=%d mhz=%d memory_mhz=%d",
      &gpu.compute_major, &gpu.compute_minor, &gpu.sm_count, &gpu.l2_bytes, &gpu.memory_bytes,
      &gpu.memory_bus_bits, &gpu.clock_khz, &gpu.memory_clock_khz);
  gpu.memory_bytes <<= 30;
  gpu.clock_khz *= 1000;
  gpu.memory_clock_khz *= 1000;
  return read == 8 ? std::optional(std::move(gpu)) : std::nullopt;
}

}  // namespace

std::vector<runtime::DeviceProperties> shipped_gpus(const std::filesystem::path& folder) {
  std::vector<runtime::DeviceProperties> all;
  for (const std::filesystem::path& device : entries_of(folder))
    if (auto gpu = properties_of(class_in(device))) all.push_back(*std::move(gpu));
  std::ranges::sort(all, {}, &runtime::DeviceProperties::name);
  return all;
}

}  // namespace tegula::autotune
