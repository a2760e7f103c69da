#pragma once
// Work of a GEMM in closed form.
#include "autotune/cost/work.h"
#include "ir/target.h"
#include "tegula/matmul_config.h"

namespace tegula::autotune {

/// Bytes of k per iteration of wgmma's mainloop: 4 times the 32 bytes per row of one instruction.
inline constexpr int kBlockKBytes = 128;

/// Returns the engine that multiplies tiles of this configuration.
MmaEngine engine_of(const MatmulProblem& problem, const MatmulConfig& config, ir::Target target);

/// Rows and columns of the accumulator in the layout of the tensor cores.
struct AccumulatorShape {
  int rows, columns;
};
AccumulatorShape accumulator_of(const MatmulProblem& problem, const MatmulConfig& config);

/// Returns true if consecutive tiles share an operand that they can multicast: columns of B or, in
/// a batch and for parts that a second kernel adds, rows of A, in multiples of 16.
bool has_shared_operand(const MatmulProblem& problem, const MatmulConfig& config);

/// Returns the bytes of one stage of the operand ring.
int stage_bytes(const MatmulProblem& problem, const MatmulConfig& config);
/// Returns the number of ring stages that fit in shared memory, at most 8.
int stages_that_fit(const MatmulProblem& problem, const MatmulConfig& config, ir::Target target);
/// Returns the number of CTAs of a configuration that are resident on one SM.
int ctas_per_sm(const MatmulProblem& problem, const MatmulConfig& config, ir::Target target);

/// Returns true if a CTA fills an SM and computes one tile after another. Its ring leaves no memory
/// for the staging of stores.
bool is_persistent(const MatmulProblem& problem, const MatmulConfig& config, ir::Target target);

/// Returns the number of tiles of the result, over all matrices of a batch.
std::int64_t tiles_of(const MatmulProblem& problem, const MatmulConfig& config);

/// Returns the order of a GEMM's tiles, and the operands that they share.
TileOrder order_of(const MatmulProblem& problem, const MatmulConfig& config);

Work work_of(const MatmulProblem& problem, const MatmulConfig& config, ir::Target target);

}  // namespace tegula::autotune
