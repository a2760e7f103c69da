#pragma once
// A calibration measures rates of a GPU; its profile follows from them: the fitted row, its
// rates scaled by what the same measurement gave on the GPU that it was fitted to.
#include <optional>

#include "tegula/device_profile.h"

namespace tegula::autotune {

/// Rates of a whole GPU; 0 where one is not known.
struct MeasuredRates {
  double clock_ghz = 0;      ///< of an SM that is nearly alone
  double copy_gbs = 0;       ///< bytes read and written by a copy of much more than the L2 holds
  double l2_gbs = 0;         ///< that all SMs read of lines which the L2 holds
  double tensor_tflops = 0;  ///< bf16, operands in shared memory, at the power limit
  double launch_us = 0;      ///< of a kernel that does nothing

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

/// `row` for another GPU: `of_row` was measured on the row's, `own` on the other, which has so many
/// SMs. A rate that one of them lacks stays that of the row.
DeviceProfile scaled(const DeviceProfile& row, const MeasuredRates& of_row,
                     const MeasuredRates& own, int num_sms);

/// The rates that were measured on a GPU of this device's class, in this process or an earlier one.
std::optional<MeasuredRates> known_rates(Device device);
/// Keeps them beside the winners; choices use them from now on.
void keep_rates(Device device, const MeasuredRates& rates);
/// Rises with each keep_rates().
int rates_version();

}  // namespace tegula::autotune
