#pragma once
// Space of a GEMM's configurations: plain, fused and gated.
#include "autotune/space.h"
#include "tegula/matmul_config.h"

namespace tegula::autotune {

using MatmulSpace = Space<MatmulProblem, MatmulConfig>;
using MatmulRule = Rule<MatmulProblem, MatmulConfig>;

/// Indices of the axes of the space.
namespace matmul_axis {
enum : int {
  bk,
  swap_ab,
  bm,
  bn,
  operands,
  split,
  parts,
  pingpong,
  multicast,
  stages,
  tma_store,
  group_m
};
}

const MatmulSpace& matmul_space();

/// Returns the rules, in the order of their axes (autotune/matmul/rules.cpp).
std::span<const MatmulRule> matmul_rules();

}  // namespace tegula::autotune
