#pragma once
// What a matrix product takes on a Hopper GPU: waves of tiles, each bound by tensor cores, by bytes
// from L2 or by the memory's latency, and all by its bandwidth.
#include <span>

#include "tegula/matmul_config.h"

namespace tegula::autotune {

/// A step along k is what one instruction takes of a row, 32 bytes, times 4.
inline constexpr int kStepBytes = 128;

/// Estimated cycles of a configuration whose `stages` are given. Of the problem count extents,
/// types, lines, `promoted` and multiprocessors.
double product_cycles(const MatmulProblem& problem, const MatmulConfig& config);

/// TMA makes two requests of a row of a step that lies across two lines of the L2; what is done
/// about it was measured for operands of 16 bits.
inline bool has_split_lines(const MatmulProblem& p) {
  return !(p.a_lines && p.b_lines) && size_bytes(p.operands) == 2;
}

/// Slots of a ring that shared memory has room for, as many as are of use.
int deepest_ring(const MatmulConfig& config, const DeviceProfile& gpu);

/// The configuration with the least of them: `tiles` of bm x bn, swapped or not, by all depths of
/// rings that differ and, unless k is to be whole, up to 16 parts of it.
MatmulConfig best_product(const MatmulProblem& problem, std::span<const MatmulConfig> tiles);

}  // namespace tegula::autotune
