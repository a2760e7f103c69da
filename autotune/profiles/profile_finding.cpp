#include "autotune/profiles/profile_finding.h"

#include <fmt/format.h>

#include "tegula/device_profile.h"

namespace tegula::autotune {

runtime::DoctorCheck examine_profiles(std::span<const runtime::DeviceProperties> gpus) {
  runtime::DoctorCheck f{"profile", true, {}, "choices of tiles that fit this model of GPU", {}};
  for (const runtime::DeviceProperties& gpu : gpus) {
    const auto [profile, is_exact] = find_profile(gpu.ordinal);
    f.present = f.present && is_exact;
    f.detail += fmt::format("{}cuda:{} {}{}", f.detail.empty() ? "" : "\n", gpu.ordinal,
                            is_exact ? "" : "nearest only: ", profile->name);
    if (is_exact && !profile->is_fitted)
      f.detail += ", rates of its memory scaled from those of " + std::string(host_profile().name);
  }
  if (gpus.empty()) f.detail = fmt::format("{}, for cpu and sim", host_profile().name);
  if (!f.present) f.remedy = "add a row to autotune/profiles, fitted by bench/matmul_search.py";
  return f;
}

}  // namespace tegula::autotune
