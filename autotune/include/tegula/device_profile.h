#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tegula/device.h"

/// Measurements of a model of GPU. Choices of tiles and stages estimate times by it; limits
/// that hold for every GPU of an architecture are not here but in the target table.
namespace tegula {

/// A fraction of a whole number, rounded down.
struct Share {
  int of = 1, in = 1;
  std::int64_t operator()(std::int64_t all) const { return all * of / in; }
};

/// Rates that the time of a matrix product is estimated by, in cycles of DeviceProfile::clock_ghz.
struct MatmulRates {
  /// Bytes of a row of A times columns of B that an SM's tensor cores multiply in a cycle.
  double flop_bytes_per_cycle = 0;
  /// Share of that which tiles of 128 columns reach, loss of each further 128 columns, loss of each
  /// 64 fewer, and the least share.
  double share_of_128 = 0, loss_of_wider = 0, loss_of_narrower = 0, least_share = 0;
  /// Bytes that an SM reads of the L2, and all SMs of the memory, in a cycle.
  double l2_bytes_per_cycle = 0, memory_bytes_per_cycle = 0;
  /// Cycles from the request of a k-iteration's tiles to their arrival, with the memory busy.
  double latency_cycles = 0;
  /// Cycles of a k-iteration's barriers, of one with ping-pong consumers, of a tile's prologue and
  /// epilogue, and of a launch.
  double step_cycles = 0, alternating_step_cycles = 0, tile_cycles = 0, launch_cycles = 0;
  /// Cycles of the kernel that adds the parts of a split k, of each part, and bytes of parts that
  /// it adds in a cycle.
  double reduce_cycles = 0, part_cycles = 0, part_bytes_per_cycle = 0;
  /// Cycles of adding parts in a cluster, and of each CTA in it.
  double cluster_cycles = 0, cluster_part_cycles = 0;
  /// SMs that clusters of more than two CTAs fill in one wave: GPCs have SMs left over.
  Share in_clusters;
  /// Cycles of a launch whose CTAs multicast: they must lie side by side, and wait for each other.
  double multicast_cycles = 0;
  /// Columns of B that a CTA brings for itself where an odd number of tiles in one wave multicasts.
  double odd_multicast_share = 0;
  /// Tensor rate of tall tiles with swapped A and B, relative to others, and cycles of their
  /// epilogue beside those of others.
  double swapped_share = 0, swapped_tile_cycles = 0;
  /// Bytes of weights under way at which the memory is fastest for few rows: by TMA, and by
  /// cp.async of many small CTAs.
  double weights_under_way = 0;
  std::int64_t weights_under_way_cp_async = 0;
  /// Least bytes of weights for which such small CTAs are faster.
  std::int64_t least_weights_cp_async = 0;
  /// Bytes of a row of A from which on results are stored by TMA, and ping-pong tiles multicast.
  std::int64_t tma_store_row_bytes = 0, multicast_row_bytes = 0;
  bool operator==(const MatmulRates&) const = default;
};

/// Rates that the time of attention is estimated by.
struct AttentionRates {
  /// Time of a kv block beside its keys, in keys, and for each value dim: barriers, maxima over
  /// lanes, the rescaled accumulator.
  double block_keys = 0, block_keys_per_dim = 0;
  /// Time of a masked key by that of another one.
  double masked_share = 0;
  /// Another form of tile is taken where its time is below this share of the usual one's.
  double worthwhile = 0;
  /// Time of a row of a tile of three warpgroups by that of one of two: without a mask and with.
  double tall_row_full = 0, tall_row_masked = 0;
  /// Split-KV, times in microseconds: bytes of keys and values that a CTA and all CTAs read in one,
  /// a cluster's exchange and each doubling of it, the exchange in memory and each further eight.
  double cta_bytes_per_us = 0, memory_bytes_per_us = 0, cluster_us = 0, cluster_doubling_us = 0,
         exchange_us = 0, exchange_eight_us = 0;
  /// Least keys of a CTA, and of a call, for which keys are split.
  std::int64_t least_split_keys = 0, least_keys_to_split = 0;
  /// SMs of which one is left over where clusters of more than two CTAs fill a wave.
  int sms_per_leftover = 0;
  /// Least floating-point operations beside which one more launch costs nothing.
  double least_work = 0;
  bool operator==(const AttentionRates&) const = default;
};

/// A row of the profiles (autotune/profiles): one model of GPU.
struct DeviceProfile {
  std::string_view name;         ///< "H200 SXM"
  std::string_view driver_name;  ///< what the driver calls such a GPU
  int capability = 0;            ///< compute capability, 90 for 9.0
  int num_sms = 0;
  double clock_ghz = 0;      ///< that cycles are counted at
  double memory_gbs = 0;     ///< of the data sheet, like the next ones
  double tensor_tflops = 0;  ///< dense, 16-bit operands
  double f32_tflops = 0;
  std::int64_t l2_bytes = 0;
  bool is_fitted = false;  ///< on such a GPU; else scaled from another row by the data sheets
  MatmulRates matmul;
  AttentionRates attention;

  /// Shared memory of a CTA for the rings of a mainloop, and registers of an SM.
  std::int64_t ring_bytes() const;
  int registers_per_sm() const;
  /// Registers of a consumer thread beside a producer warpgroup that keeps so many a thread, or as
  /// few as it can.
  int consumer_registers(int consumer_warps, int producer_registers = 0) const;
};

/// The row that the host's devices (cpu, sim) choose by.
const DeviceProfile& host_profile();

/// A GPU as the choice of a row sees it.
struct GpuModel {
  std::string name;
  int capability = 0;
  int num_sms = 0;
  double memory_gbs = 0;
};
struct ProfileMatch {
  const DeviceProfile* profile;
  bool is_exact;  ///< else the nearest row
};
/// The row of this model, or the nearest one: by compute capability, then by memory and SMs.
ProfileMatch find_profile(const GpuModel& gpu);
/// The row of GPU `ordinal`. Throws DeviceError if there is no such GPU.
ProfileMatch find_profile(int ordinal);

/// The row of a device.
const DeviceProfile& device_profile(Device device);
/// The SMs of a GPU itself, or those of the host's profile.
int num_sms(Device device);
/// The device's target has wgmma.
bool has_wgmma(Device device);

}  // namespace tegula
