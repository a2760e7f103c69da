#pragma once
// Tiles of experts as configurations of a batch of GEMMs, whose cost core knows what they take.
#include <algorithm>

#include "autotune/matmul/work.h"
#include "tegula/expert_config.h"

namespace tegula::autotune {

/// With the stages that the compiler would take where none are given.
inline MatmulConfig as_matmul(const MatmulProblem& batch, const ExpertTileConfig& c,
                              ir::Target target) {
  MatmulConfig of{.bm = c.bm, .bn = c.bn, .bk = c.bk, .swap_ab = c.swap_ab, .stages = c.stages};
  if (of.stages == 0) of.stages = std::clamp(stages_that_fit(batch, of, target), 1, 4);
  return of;
}

inline bool is_too_deep(const MatmulProblem& batch, const ExpertTileConfig& c, ir::Target target) {
  return c.stages > stages_that_fit(batch, as_matmul(batch, c, target), target);
}

inline double cycles_of_batch(const MatmulProblem& batch, const ExpertTileConfig& c,
                              const DeviceProfile& gpu) {
  const ir::Target target = limits_of(gpu).target;
  return cycles_of(work_of(batch, as_matmul(batch, c, target), target), gpu.cost, gpu.num_sms);
}

}  // namespace tegula::autotune
