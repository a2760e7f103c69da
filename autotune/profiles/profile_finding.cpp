#include "autotune/profiles/profile_finding.h"

#include <fmt/format.h>

#include "autotune/calibration/rates.h"
#include "tegula/device_profile.h"

namespace tegula::autotune {

runtime::DoctorCheck examine_profiles(std::span<const runtime::DeviceProperties> gpus) {
  runtime::DoctorCheck f{"profile", true, {}, "choices of tiles that fit this model of GPU", {}};
  for (const runtime::DeviceProperties& gpu : gpus) {
    const auto [profile, is_exact] = find_profile(gpu.ordinal);
    const auto rates = is_exact ? std::nullopt : known_rates(Device::cuda(gpu.ordinal));
    f.present = f.present && (is_exact || rates);
    f.detail += fmt::format("{}cuda:{} ", f.detail.empty() ? "" : "\n", gpu.ordinal);
    if (rates)
      f.detail += fmt::format(
          "calibrated from {}: copy {:.0f} GB/s, L2 {:.0f} GB/s, tensor cores {:.0f} TFLOP/s, "
          "launch {:.2f} us, clock {:.2f} GHz",
          host_profile().name, rates->copy_gbs, rates->l2_gbs, rates->tensor_tflops,
          rates->launch_us, rates->clock_ghz);
    else
      f.detail += fmt::format("{}{}", is_exact ? "" : "nearest only: ", profile->name);
    if (is_exact && !profile->is_fitted)
      f.detail += ", rates of its memory scaled from those of " + std::string(host_profile().name);
  }
  if (gpus.empty()) f.detail = fmt::format("{}, for cpu and sim", host_profile().name);
  if (!f.present) f.remedy = "tegula calibrate measures this GPU in about a second; so does tuning";
  return f;
}

}  // namespace tegula::autotune
