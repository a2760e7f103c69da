#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tegula/device.h"

/// Measurements of a model of GPU. Choices of tiles and stages estimate times by it; limits
/// that hold for every GPU of an architecture are not here but in the target table.
namespace tegula {

/// Rates that the time of a kernel is estimated by, in cycles of DeviceProfile::clock_ghz
/// (autotune/cost). Each is of one SM unless it says otherwise.
struct CostRates {
  /// Bytes of a row of A times columns of B that the tensor cores multiply in a cycle, and the
  /// share of that which wgmma and mma.sync reach.
  double mma_bytes = 0, wgmma_share = 0, mma_sync_share = 0;
  /// Loss of that share for each 64 columns of an instruction below 128, and above.
  double narrow_loss = 0, wide_loss = 0;
  /// Loss of the tensor cores' time where CTAs of an SM take turns.
  double turn_loss = 0;
  /// Bytes of shared memory that tensor cores read in a cycle.
  double smem_bytes = 0;
  /// Lines of 128 bytes of the L2, requested by one SM, and bytes of the memory, by all, in a
  /// cycle.
  double l2_lines = 0, hbm_bytes = 0;
  /// Cycles from the request of a k-iteration's tiles to their arrival, with the memory busy.
  double latency = 0;
  /// Cycles of a k-iteration's barriers, with cooperative and with ping-pong consumers, and beside
  /// them those of a partner that multicasts.
  double barrier = 0, pingpong_barrier = 0, multicast_barrier = 0, pingpong_multicast_barrier = 0;
  /// Cycles of a load of a single element by a thread.
  double single_element = 0;
  /// Cycles of a tile's prologue and epilogue, with TMA and wgmma and without, and bytes that a
  /// warpgroup's epilogue moves in one, as they are and transposed.
  double tile = 0, mma_sync_tile = 0, epilogue_bytes = 0, transposed_bytes = 0;
  /// Cycles of a launch, of one that multicasts beside it, and of a kernel in front of another one
  /// that starts while it ends.
  double launch = 0, multicast = 0, dependent_launch = 0;
  /// Cycles of the kernel that adds partial accumulators, of each part, and bytes of them that all
  /// SMs add in a cycle.
  double reduce = 0, reduce_part = 0, reduce_bytes = 0;
  /// Cycles of a sum in a cluster, of each CTA in it, and bytes of an accumulator that a CTA
  /// exchanges in one.
  double cluster_sum = 0, cluster_part = 0, cluster_bytes = 0;
  /// Cycles of stream-K's wait for, or hand-over of, a partial accumulator.
  double stream_fixup = 0;
  /// Share of the SMs that clusters of more than two CTAs fill: GPCs have SMs left over.
  double cluster_fill = 1;
  /// Bytes under way, of lines that follow none of their own, at which the memory is fastest, and
  /// what it loses by as many more.
  double under_way = 0, crowding = 0;
  /// Share of the memory's time that is lost where an SM has one CTA, which requests in bursts.
  double memory_gaps = 0;
  /// Cycles under the power limit of a byte multiplied, read of shared memory, of the L2 and of the
  /// memory, by all SMs.
  double mma_power = 0, smem_power = 0, l2_power = 0, hbm_power = 0;

  template <class Self, class Visit>
  static void each_field(Self& r, const Visit& visit) {
    visit("mma_bytes", r.mma_bytes);
    visit("wgmma_share", r.wgmma_share);
    visit("mma_sync_share", r.mma_sync_share);
    visit("narrow_loss", r.narrow_loss);
    visit("wide_loss", r.wide_loss);
    visit("turn_loss", r.turn_loss);
    visit("smem_bytes", r.smem_bytes);
    visit("l2_lines", r.l2_lines);
    visit("hbm_bytes", r.hbm_bytes);
    visit("latency", r.latency);
    visit("barrier", r.barrier);
    visit("pingpong_barrier", r.pingpong_barrier);
    visit("multicast_barrier", r.multicast_barrier);
    visit("pingpong_multicast_barrier", r.pingpong_multicast_barrier);
    visit("single_element", r.single_element);
    visit("tile", r.tile);
    visit("mma_sync_tile", r.mma_sync_tile);
    visit("epilogue_bytes", r.epilogue_bytes);
    visit("transposed_bytes", r.transposed_bytes);
    visit("launch", r.launch);
    visit("multicast", r.multicast);
    visit("dependent_launch", r.dependent_launch);
    visit("reduce", r.reduce);
    visit("reduce_part", r.reduce_part);
    visit("reduce_bytes", r.reduce_bytes);
    visit("cluster_sum", r.cluster_sum);
    visit("cluster_part", r.cluster_part);
    visit("cluster_bytes", r.cluster_bytes);
    visit("stream_fixup", r.stream_fixup);
    visit("cluster_fill", r.cluster_fill);
    visit("under_way", r.under_way);
    visit("crowding", r.crowding);
    visit("memory_gaps", r.memory_gaps);
    visit("mma_power", r.mma_power);
    visit("smem_power", r.smem_power);
    visit("l2_power", r.l2_power);
    visit("hbm_power", r.hbm_power);
  }
  bool operator==(const CostRates&) const = default;
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
  /// Least keys of a call for which keys are split.
  std::int64_t least_keys_to_split = 0;
  /// SMs of which one is left over where clusters of more than two CTAs fill a wave.
  int sms_per_leftover = 0;
  /// Least floating-point operations beside which one more launch costs nothing.
  double least_work = 0;
  bool operator==(const AttentionRates&) const = default;
};

/// A row of the profiles (autotune/profiles): one model of GPU.
struct DeviceProfile {
  std::string_view name;         ///< "H200 SXM"
  std::string_view driver_name;  ///< the driver's name of such a GPU
  int capability = 0;            ///< compute capability, 90 for 9.0
  int num_sms = 0;
  double clock_ghz = 0;      ///< clock that cycles are counted at
  double memory_gbs = 0;     ///< from the data sheet, like the next ones
  double tensor_tflops = 0;  ///< dense, 16-bit operands
  double f32_tflops = 0;
  std::int64_t l2_bytes = 0;
  bool is_fitted = false;  ///< on such a GPU; else scaled from another row by the data sheets
  CostRates cost;
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

/// The row of a device, with the GPU's own SMs and compute capability. Valid until this thread asks
/// about another GPU.
const DeviceProfile& device_profile(Device device);
/// The SMs of a GPU itself, or those of the host's profile.
int num_sms(Device device);
/// The device's target has wgmma.
bool has_wgmma(Device device);
/// The device's target has clusters.
bool has_clusters(Device device);

}  // namespace tegula
