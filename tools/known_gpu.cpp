#include "tools/known_gpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <vector>

#include "autotune/store/shipped_gpus.h"
#include "autotune/store/shipped_winners.h"
#include "tegula/device_profile.h"

namespace tegula::tools {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Returns the model of a profile, without memory size and clocks, so that no winners match it.
runtime::DeviceProperties model_of(const DeviceProfile& profile) {
  runtime::DeviceProperties gpu;
  gpu.name = profile.driver_name;
  gpu.compute_major = profile.capability / 10;
  gpu.compute_minor = profile.capability % 10;
  gpu.sm_count = profile.num_sms;
  return gpu;
}

}  // namespace

runtime::DeviceProperties known_gpu(const std::string& wanted) {
  std::vector<runtime::DeviceProperties> known = autotune::shipped_gpus(autotune::shipped_folder());
  known.push_back(model_of(host_profile()));
  const std::string part = lower(wanted.empty() ? known.back().name : wanted);
  const auto found = std::ranges::find_if(known, [&](const runtime::DeviceProperties& gpu) {
    return lower(gpu.name).find(part) != std::string::npos;
  });
  if (found != known.end()) return *found;
  std::vector<std::string> names;
  for (const runtime::DeviceProperties& gpu : known)
    if (std::ranges::find(names, gpu.name) == names.end()) names.push_back(gpu.name);
  throw std::runtime_error(
      fmt::format("unknown model {}: the models are {}", wanted, fmt::join(names, ", ")));
}

}  // namespace tegula::tools
