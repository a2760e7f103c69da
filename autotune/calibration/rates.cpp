#include "autotune/calibration/rates.h"

#include <atomic>

#include "autotune/device_class.h"
#include "autotune/field.h"
#include "autotune/store/winner_table.h"

namespace tegula::autotune {
namespace {

std::atomic<int> version = 0;

double ratio(double own, double of_row) { return own > 0 && of_row > 0 ? own / of_row : 1; }

/// Rates are a row of the winners' table, so that they are stored, bundled and protected against
/// damage like winners.
TuningKey key_of(Device device) { return {device_class(device), "calibration", 1, "rates", ""}; }

}  // namespace

DeviceProfile scaled(const DeviceProfile& row, const MeasuredRates& of_row,
                     const MeasuredRates& own, int num_sms) {
  DeviceProfile p = row;
  const double clock = ratio(own.clock_ghz, of_row.clock_ghz);
  const double sms = static_cast<double>(num_sms) / row.num_sms;
  const double memory = ratio(own.copy_gbs, of_row.copy_gbs);
  // Rates of one SM per cycle.
  const double l2 = ratio(own.l2_gbs, of_row.l2_gbs) / sms / clock;
  const double tensor = ratio(own.tensor_tflops, of_row.tensor_tflops) / sms / clock;
  const double launch = ratio(own.launch_us, of_row.launch_us) * clock;
  p.is_fitted = false;
  p.num_sms = num_sms;
  p.clock_ghz *= clock;
  p.memory_gbs *= memory;
  p.tensor_tflops *= ratio(own.tensor_tflops, of_row.tensor_tflops);
  p.f32_tflops *= sms * clock;
  p.cost.hbm_bytes *= memory / clock;
  p.cost.reduce_bytes *= memory / clock;
  p.cost.l2_lines *= l2;
  p.cost.wgmma_share *= tensor;
  p.cost.mma_sync_share *= tensor;
  p.cost.narrow_loss *= tensor;
  p.cost.wide_loss *= tensor;
  p.cost.launch *= launch;
  p.cost.dependent_launch *= launch;
  p.cost.reduce *= launch;
  p.attention.memory_bytes_per_us *= memory;
  return p;
}

std::optional<MeasuredRates> known_rates(Device device) {
  const auto kept = WinnerTable::of_process().find(key_of(device));
  return kept ? parse<MeasuredRates>(kept->config) : std::nullopt;
}

void keep_rates(Device device, const MeasuredRates& rates) {
  WinnerTable::of_process().publish({key_of(device), text_of(rates), "", 1, 1, 1, "", 0});
  ++version;
}

int rates_version() { return version; }

}  // namespace tegula::autotune
