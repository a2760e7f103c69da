#pragma once
// One row per model of GPU. Every number that was fitted to measurements of kernels stands here.
#include "tegula/device_profile.h"

namespace tegula::autotune {

// Products: fitted to the times of 54 shapes in all their configurations (bench/matmul_search.py);
// what it chooses takes 1.1 % longer than the best. Weights under way: with more most tiles took
// longer, up to 10 % (bench/results/sweeps/2026-11-23-h200-matmul-ragged.jsonl), and of small CTAs
// (2026-11-23-h200-few-rows.jsonl). Stores by TMA from rows of 4096 bytes on: half a percent faster
// with ping-pong tiles, 1 to 5 % where an epilogue reads matrices (2026-11-24-h200-groups.jsonl,
// 2026-11-22-h200-tma-store.jsonl). Multicast from 16384 bytes on: as fast at the card's power
// limit, and on a cool one not as far behind tiles of two warpgroups, which read a quarter less
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
    .l2_bytes = 50 << 20,
    .is_fitted = true,
    .matmul = {.flop_bytes_per_cycle = 8192,
               .share_of_128 = 0.798,
               .loss_of_wider = 0.021,
               .loss_of_narrower = 0.158,
               .least_share = 0.4,
               .l2_bytes_per_cycle = 60.3,
               .memory_bytes_per_cycle = 1900,
               .latency_cycles = 2606,
               .step_cycles = 46,
               .alternating_step_cycles = 34,
               .tile_cycles = 2142,
               .launch_cycles = 8219,
               .reduce_cycles = 3942,
               .part_cycles = 804,
               .part_bytes_per_cycle = 2514,
               .cluster_cycles = 2403,
               .cluster_part_cycles = 838,
               .in_clusters = {2, 3},
               .multicast_cycles = 2000,
               .odd_multicast_share = 0.75,
               .swapped_share = 0.8,
               .swapped_tile_cycles = 3500,
               .weights_under_way = 7.5e6,
               .weights_under_way_cp_async = 8'500'000,
               .least_weights_cp_async = 8 << 20,
               .tma_store_row_bytes = 4096,
               .multicast_row_bytes = 16384},
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
                  .least_split_keys = 128,
                  .least_keys_to_split = 1024,
                  .sms_per_leftover = 8,
                  .least_work = 2e10},
};

/// The same chip beside slower memory: rates of the memory are scaled by the data sheets, others
/// are those of the H200.
constexpr DeviceProfile h100_sxm() {
  DeviceProfile h100 = kH200;
  h100.name = "H100 SXM";
  h100.driver_name = "NVIDIA H100 80GB HBM3";
  h100.memory_gbs = 3350;
  h100.is_fitted = false;
  const double slower = h100.memory_gbs / kH200.memory_gbs;
  h100.matmul.memory_bytes_per_cycle *= slower;
  h100.matmul.part_bytes_per_cycle *= slower;
  h100.attention.memory_bytes_per_us *= slower;
  return h100;
}
inline constexpr DeviceProfile kH100 = h100_sxm();

inline constexpr const DeviceProfile* kProfiles[] = {&kH200, &kH100};

}  // namespace tegula::autotune
