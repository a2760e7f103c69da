#include "tegula/device_profile.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "autotune/calibration/rates.h"
#include "autotune/profiles/rows.h"
#include "ir/target.h"
#include "runtime/context.h"

namespace tegula {
namespace {

const ir::TargetRow& target_of(const DeviceProfile& p) {
  return *ir::Target::of_capability(p.capability);
}

/// Returns a distance that orders by capability first, then by rates.
auto distance(const DeviceProfile& row, const GpuModel& gpu) {
  const auto ratio = [](double a, double b) {
    return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 0;
  };
  return std::tuple(std::abs(row.capability - gpu.capability),
                    ratio(row.memory_gbs, gpu.memory_gbs) + ratio(row.num_sms, gpu.num_sms));
}

/// Returns the row of a GPU's model. For an unknown model, returns the fitted row scaled by the
/// ratio of the rates measured on both GPUs, or the nearest row without such rates.
DeviceProfile own_profile(Device device, const runtime::DeviceProperties& gpu) {
  const ProfileMatch match = find_profile(device.index);
  DeviceProfile own = *match.profile;
  if (!match.is_exact)
    if (const auto rates = autotune::known_rates(device))
      own = autotune::scaled(host_profile(), autotune::kMeasuredOnH200, *rates, gpu.sm_count);
  own.is_fitted = own.is_fitted && match.is_exact;
  own.num_sms = gpu.sm_count;
  own.capability = gpu.compute();
  if (gpu.l2_bytes > 0) own.l2_bytes = static_cast<std::int64_t>(gpu.l2_bytes);
  return own;
}

GpuModel model_of(const runtime::DeviceProperties& p) {
  // Memory transfers twice per clock.
  const double gbs = 2.0 * p.memory_clock_khz * p.memory_bus_bits / 8 / 1e6;
  return {p.name, p.compute(), p.sm_count, gbs};
}

}  // namespace

std::int64_t DeviceProfile::ring_bytes() const { return target_of(*this).ring_bytes(); }

int DeviceProfile::registers_per_sm() const { return target_of(*this).registers_per_sm; }

int DeviceProfile::consumer_registers(int consumer_warps, int producer_registers) const {
  return target_of(*this).max_consumer_registers(consumer_warps, ir::kWarpgroupWarps,
                                                 producer_registers);
}

const DeviceProfile& host_profile() { return autotune::kH200; }

ProfileMatch find_profile(const GpuModel& gpu) {
  for (const DeviceProfile* row : autotune::kProfiles)
    if (row->capability == gpu.capability && row->num_sms == gpu.num_sms &&
        gpu.name == row->driver_name)
      return {row, true};
  return {*std::ranges::min_element(autotune::kProfiles, {},
                                    [&](const DeviceProfile* row) { return distance(*row, gpu); }),
          false};
}

ProfileMatch find_profile(int ordinal) {
  return find_profile(model_of(runtime::device_properties(ordinal)));
}

const DeviceProfile& device_profile(Device device) {
  if (device.kind != DeviceKind::cuda) return host_profile();
  struct Known {
    const runtime::DeviceProperties* gpu = nullptr;
    int version = 0;
    DeviceProfile profile;
  };
  // Cache the last GPU. Its properties keep their address for the lifetime of the process.
  thread_local Known known;
  const runtime::DeviceProperties& gpu = runtime::device_properties(device.index);
  const int version = autotune::rates_version();
  if (known.gpu == &gpu && known.version == version) return known.profile;
  known = {&gpu, version, own_profile(device, gpu)};
  return known.profile;
}

int num_sms(Device device) { return device_profile(device).num_sms; }

bool has_wgmma(Device device) { return runtime::default_target(device)->has_wgmma; }

bool has_clusters(Device device) { return runtime::default_target(device)->has_clusters; }

}  // namespace tegula
