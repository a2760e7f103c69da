#pragma once
// One row per GPU model. All numbers that were fitted to kernel measurements are in this file.
#include "autotune/calibration/rates.h"
#include "tegula/device_profile.h"

namespace tegula::autotune {

// Products: fitted to the times of 54 shapes in all their configurations (bench/matmul_search.py);
// the chosen configurations take 1.1 % longer than the best. Bytes in flight: most tiles took up to
// 10 % longer with more (bench/results/sweeps/2026-11-23-h200-matmul-ragged.jsonl), and so did
// small CTAs (2026-11-23-h200-few-rows.jsonl). TMA stores from rows of 4096 bytes on: 0.5 % faster
// with ping-pong tiles, 1 to 5 % where an epilogue reads matrices (2026-11-24-h200-groups.jsonl,
// 2026-11-22-h200-tma-store.jsonl). Multicast from 16384 bytes on: as fast at the power limit; on a
// cool card it narrows the gap to tiles of two warpgroups, which read a quarter less
// (2026-11-22-h200-alternate.jsonl). Attention: tiles fitted to head dims 64 and 128, tall ones to
// 64, 80 and 96 (2026-11-22-h200-tall-tiles.jsonl), split-KV to 2026-11-24-h200-key-splits.jsonl.
inline constexpr DeviceProfile kH200{
    .name = "H200 SXM",
    .driver_name = "NVIDIA H200",
    .capability = 90,
    .num_sms = 132,
    .clock_ghz = 1.9,
    .memory_gbs = 4800,
    .tensor_tflops = 989,
    .f32_tflops = 67,
    .l2_bytes = 60 << 20,
    .is_fitted = true,
    .cost = {.mma_bytes = 8192,
             .wgmma_share = 0.814,
             .mma_sync_share = 0.5,
             .narrow_loss = 0.0283,
             .wide_loss = 0.018,
             .turn_loss = 0.15,
             .smem_bytes = 205,
             .l2_lines = 0.496,
             .hbm_bytes = 2400,
             .latency = 2304,
             .barrier = 14,
             .pingpong_barrier = 1,
             .multicast_barrier = 80.6,
             .pingpong_multicast_barrier = 39,
             .single_element = 0.125,
             .thread_ops = 125,
             .exchange = 150,
             .thread_latency = 1200,
             .thread_tile = 600,
             .cta = 60,
             .tile = 5001,
             .mma_sync_tile = 2613,
             .epilogue_bytes = 99.8,
             .transposed_bytes = 2,
             .element_bytes = 2,
             .launch = 2200,
             .multicast = 1089,
             .dependent_launch = 4500,
             .reduce = 4137,
             .reduce_part = 290,
             .reduce_bytes = 2250,
             .cluster_sum = 2724,
             .cluster_part = 450,
             .cluster_bytes = 5.74,
             .stream_fixup = 23086,
             .cluster_fill = 0.665,
             .under_way = 4600000,
             .crowding = 0.15,
             .memory_gaps = 0.03,
             .mma_power = 9e-07,
             .smem_power = 2e-06,
             .l2_power = 0.0003,
             .hbm_power = 8.07e-05},
    .attention = {.block_keys = 20,
                  .block_keys_per_dim = 0.22,
                  .masked_share = 0.3,
                  .worthwhile = 0.98,
                  .tall_row_full = 0.82,
                  .tall_row_masked = 0.88,
                  .cta_bytes_per_us = 61.7e3,
                  .memory_bytes_per_us = 4.1e6,
                  .cluster_us = 1.0,
                  .cluster_doubling_us = 0.4,
                  .exchange_us = 3,
                  .exchange_eight_us = 1.8,
                  .least_keys_to_split = 1024,
                  .sms_per_leftover = 8,
                  .least_work = 2e10},
};

/// Results of `tegula calibrate` on an H200: medians of three runs.
inline constexpr MeasuredRates kMeasuredOnH200{
    .clock_ghz = 1.966, .copy_gbs = 3892, .l2_gbs = 8016, .tensor_tflops = 598, .launch_us = 3.68};

/// The same chip with a smaller L2 and slower memory. Memory rates are scaled by the data sheets,
/// all others are those of the H200.
constexpr DeviceProfile h100_sxm() {
  DeviceProfile h100 = kH200;
  h100.name = "H100 SXM";
  h100.driver_name = "NVIDIA H100 80GB HBM3";
  h100.memory_gbs = 3350;
  h100.l2_bytes = 50 << 20;
  h100.is_fitted = false;
  const double slower = h100.memory_gbs / kH200.memory_gbs;
  h100.cost.hbm_bytes *= slower;
  h100.attention.memory_bytes_per_us *= slower;
  return h100;
}
inline constexpr DeviceProfile kH100 = h100_sxm();

inline constexpr const DeviceProfile* kProfiles[] = {&kH200, &kH100};

}  // namespace tegula::autotune
