#pragma once
// Measured rates of a GPU, and the profile derived from them: the row of the nearest GPU,
// with its rates scaled by the ratio of each measurement to the same one on that GPU.
#include <optional>

#include "tegula/device_profile.h"

namespace tegula::autotune {

/// Rates of a whole GPU; 0 if unknown.
struct MeasuredRates {
  double clock_ghz = 0;      ///< of an SM while the GPU is nearly idle
  double copy_gbs = 0;       ///< bytes read and written by a copy much larger than the L2
  double l2_gbs = 0;         ///< bytes that all SMs read from lines in the L2
  double tensor_tflops = 0;  ///< bf16, operands in shared memory, at the power limit
  double launch_us = 0;      ///< of an empty kernel

  template <class Self, class Visit>
  static void each_field(Self& r, const Visit& visit) {
    visit("clock_ghz", r.clock_ghz);
    visit("copy_gbs", r.copy_gbs);
    visit("l2_gbs", r.l2_gbs);
    visit("tensor_tflops", r.tensor_tflops);
    visit("launch_us", r.launch_us);
  }
  bool operator==(const MeasuredRates&) const = default;
};

/// Returns `row` scaled to another GPU with `num_sms` SMs. `of_row` was measured on the row's GPU,
/// `own` on the other one. A rate that is unknown in either is not scaled.
DeviceProfile scaled(const DeviceProfile& row, const MeasuredRates& of_row,
                     const MeasuredRates& own, int num_sms);

/// Returns the rates that this or an earlier process measured on a GPU of this device class.
std::optional<MeasuredRates> known_rates(Device device);
/// Stores rates with the winners; later choices use them.
void keep_rates(Device device, const MeasuredRates& rates);
/// Returns a counter that each keep_rates() increments.
int rates_version();

}  // namespace tegula::autotune
