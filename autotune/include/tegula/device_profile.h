#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tegula/device.h"

/// Measurements of GPU models, used to estimate times when choosing tiles and stages. Limits that
/// hold for every GPU of an architecture are in the target table.
namespace tegula {

/// Rates for estimating the time of a kernel (autotune/cost), in cycles of
/// DeviceProfile::clock_ghz. Each is for one SM unless stated otherwise.
struct CostRates {
  /// Peak rate of the tensor cores per cycle, in the unit of Work::mma_bytes, and the fractions of
  /// it that wgmma and mma.sync reach.
  double mma_bytes = 0, wgmma_share = 0, mma_sync_share = 0;
  /// Decrease of that fraction per 64 instruction columns below 128, and per 64 above 128.
  double narrow_loss = 0, wide_loss = 0;
  /// Relative loss of tensor-core time if several CTAs share an SM.
  double turn_loss = 0;
  /// Bytes of shared memory that the tensor cores read per cycle.
  double smem_bytes = 0;
  /// L2 lines of 128 bytes requested by one SM per cycle, and bytes of device memory read by all
  /// SMs per cycle.
  double l2_lines = 0, hbm_bytes = 0;
  /// Cycles from the request of a k-iteration's tiles to their arrival, with busy memory.
  double latency = 0;
  /// Barrier cycles per k-iteration with cooperative and with ping-pong consumers, and the
  /// additional cycles of either when a partner CTA multicasts.
  double barrier = 0, pingpong_barrier = 0, multicast_barrier = 0, pingpong_multicast_barrier = 0;
  /// Cycles of a single-element load by a thread.
  double single_element = 0;
  /// Elements that threads compute per cycle, and cycles of a fold between threads. Kernels without
  /// dots: cycles until a load arrives, of a tile's start and end, and of launching one more CTA.
  double thread_ops = 0, exchange = 0, thread_latency = 0, thread_tile = 0, cta = 0;
  /// Cycles of a tile's prologue and epilogue with TMA and wgmma, and with mma.sync; bytes per
  /// cycle of a warpgroup's epilogue: as usual, transposed, and stored by single elements.
  double tile = 0, mma_sync_tile = 0, epilogue_bytes = 0, transposed_bytes = 0, element_bytes = 0;
  /// Cycles of a launch, additional cycles of a launch that multicasts, and cycles of a kernel
  /// whose successor starts before it ends.
  double launch = 0, multicast = 0, dependent_launch = 0;
  /// Reduction of partial accumulators by a kernel: cycles of the kernel, additional cycles per
  /// part, and bytes that all SMs add per cycle.
  double reduce = 0, reduce_part = 0, reduce_bytes = 0;
  /// Reduction within a cluster: cycles of the sum, additional cycles per CTA, and accumulator
  /// bytes that a CTA exchanges per cycle.
  double cluster_sum = 0, cluster_part = 0, cluster_bytes = 0;
  /// Cycles for stream-K to wait for, or to hand over, a partial accumulator.
  double stream_fixup = 0;
  /// Fraction of the SMs that clusters of more than two CTAs fill: each GPC has SMs left over.
  double cluster_fill = 1;
  /// Bytes in flight of scattered lines (Work::scattered_bytes) up to which memory runs at full
  /// speed, and its relative slowdown for each further such amount.
  double under_way = 0, crowding = 0;
  /// Fraction of memory time lost with one CTA per SM, whose requests come in bursts.
  double memory_gaps = 0;
  /// Cycles at the power limit, for all SMs: per unit of Work::mma_bytes, per byte of shared
  /// memory, per L2 line and per byte of device memory.
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
    visit("thread_ops", r.thread_ops);
    visit("exchange", r.exchange);
    visit("thread_latency", r.thread_latency);
    visit("thread_tile", r.thread_tile);
    visit("cta", r.cta);
    visit("tile", r.tile);
    visit("mma_sync_tile", r.mma_sync_tile);
    visit("epilogue_bytes", r.epilogue_bytes);
    visit("transposed_bytes", r.transposed_bytes);
    visit("element_bytes", r.element_bytes);
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

/// Rates for estimating the time of attention.
struct AttentionRates {
  /// Overhead of a kv block in units of keys, fixed and per value dim: barriers, row maxima across
  /// lanes, rescaling of the accumulator.
  double block_keys = 0, block_keys_per_dim = 0;
  /// Time of a masked key relative to an unmasked one.
  double masked_share = 0;
  /// A later tile shape is chosen only if its time is below this fraction of the best one so far.
  double worthwhile = 0;
  /// Time per row of a three-warpgroup tile relative to a tile of 128 rows, unmasked and masked.
  double tall_row_full = 0, tall_row_masked = 0;
  /// Split-KV: bytes of keys and values that one CTA and all CTAs read per us; us of a cluster
  /// exchange, per doubling of the cluster, of a memory exchange, and per eight more clusters.
  double cta_bytes_per_us = 0, memory_bytes_per_us = 0, cluster_us = 0, cluster_doubling_us = 0,
         exchange_us = 0, exchange_eight_us = 0;
  /// Minimum number of keys of a call for which the keys are split.
  std::int64_t least_keys_to_split = 0;
  /// One in this many SMs is left over when clusters of more than two CTAs fill a wave.
  int sms_per_leftover = 0;
  /// Minimum floating-point operations of a call for which one more launch is negligible.
  double least_work = 0;
  bool operator==(const AttentionRates&) const = default;
};

/// A row of the profiles (autotune/profiles), for one GPU model.
struct DeviceProfile {
  std::string_view name;         ///< "H200 SXM"
  std::string_view driver_name;  ///< name that the driver reports
  int capability = 0;            ///< compute capability, 90 for 9.0
  int num_sms = 0;
  double clock_ghz = 0;      ///< clock of all cycle counts
  double memory_gbs = 0;     ///< from the data sheet, like the following ones
  double tensor_tflops = 0;  ///< dense, 16-bit operands
  double f32_tflops = 0;
  std::int64_t l2_bytes = 0;
  bool is_fitted = false;  ///< measured on such a GPU; else scaled by the data sheets
  CostRates cost;
  AttentionRates attention;

  /// Return the bytes of a CTA's shared memory for mainloop rings, and the registers of an SM.
  std::int64_t ring_bytes() const;
  int registers_per_sm() const;
  /// Returns the registers of a consumer thread if the threads of the producer warpgroup keep
  /// `producer_registers` each, or the minimum if 0.
  int consumer_registers(int consumer_warps, int producer_registers = 0) const;
};

/// Returns the row for the host's devices (cpu, sim).
const DeviceProfile& host_profile();

/// Properties of a GPU that determine its row.
struct GpuModel {
  std::string name;
  int capability = 0;
  int num_sms = 0;
  double memory_gbs = 0;
};
struct ProfileMatch {
  const DeviceProfile* profile;
  bool is_exact;  ///< false: the nearest row
};
/// Returns the row of this model, or the nearest one: by capability, then by memory and SMs.
ProfileMatch find_profile(const GpuModel& gpu);
/// Returns the row of GPU `ordinal`. Throws DeviceError if that GPU does not exist.
ProfileMatch find_profile(int ordinal);

/// Returns the row of a device, with the GPU's own SM count and compute capability. The reference
/// is valid until this thread queries another GPU.
const DeviceProfile& device_profile(Device device);
/// Returns the number of SMs of the GPU, or of the host's profile.
int num_sms(Device device);
/// Returns true if the device's target has wgmma.
bool has_wgmma(Device device);
/// Returns true if the device's target has clusters.
bool has_clusters(Device device);

}  // namespace tegula
