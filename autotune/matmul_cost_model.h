#pragma once
// Cost model of a GEMM on a Hopper GPU: waves of tiles, each bound by the tensor cores, by bytes
// from L2 or by memory latency, and all of them by memory bandwidth.
#include <span>

#include "tegula/matmul_config.h"

namespace tegula::autotune {

/// Bytes of k per iteration: the 32 bytes that one instruction takes of a row, times 4.
inline constexpr int kBlockKBytes = 128;

/// Estimated cycles of a configuration whose `stages` are given. Of the problem count extents,
/// types, lines, `fp32_promotion` and multiprocessors.
double estimate_cycles(const MatmulProblem& problem, const MatmulConfig& config);

/// TMA makes two requests for a row that crosses two lines of the L2; the measures against it were
/// tuned for operands of 16 bits.
inline bool is_line_misaligned(const MatmulProblem& p) {
  return !(p.is_a_line_aligned && p.is_b_line_aligned) && size_bytes(p.operands) == 2;
}

/// Stages of a ring that shared memory has room for, as many as are of use.
int max_stages(const MatmulConfig& config, const DeviceProfile& gpu);

/// The configuration with the fewest cycles: `tiles` of bm x bn, swapped or not, with all useful
/// numbers of stages and, unless split-K is excluded, up to 16 slices of k.
MatmulConfig best_matmul_config(const MatmulProblem& problem, std::span<const MatmulConfig> tiles);

}  // namespace tegula::autotune
