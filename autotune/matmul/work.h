#pragma once
// Work of a GEMM in closed form.
#include "autotune/cost/work.h"
#include "ir/target.h"
#include "tegula/matmul_config.h"

namespace tegula::autotune {

/// Bytes of k per iteration of wgmma's mainloop: the 32 bytes that one instruction takes of a row,
/// times 4.
inline constexpr int kBlockKBytes = 128;

/// The engine that multiplies tiles of this configuration.
MmaEngine engine_of(const MatmulProblem& problem, const MatmulConfig& config, ir::Target target);

/// Rows and columns of the accumulator as the tensor cores have it.
struct AccumulatorShape {
  int rows, columns;
};
AccumulatorShape accumulator_of(const MatmulProblem& problem, const MatmulConfig& config);

/// Bytes that one stage of the operand ring takes.
int stage_bytes(const MatmulProblem& problem, const MatmulConfig& config);
/// Stages of a ring that shared memory has room for.
int stages_that_fit(const MatmulProblem& problem, const MatmulConfig& config, ir::Target target);
/// CTAs of a configuration that one SM holds at once.
int ctas_per_sm(const MatmulProblem& problem, const MatmulConfig& config, ir::Target target);

/// Tiles of the result, of all matrices of a batch.
std::int64_t tiles_of(const MatmulProblem& problem, const MatmulConfig& config);

/// The order of a GEMM's tiles, and the operands that they share.
TileOrder order_of(const MatmulProblem& problem, const MatmulConfig& config);

Work work_of(const MatmulProblem& problem, const MatmulConfig& config, ir::Target target);

}  // namespace tegula::autotune
