#pragma once
// Coverage of blocks, computed by evaluating a mask on the device: works for every mask, also for
// those that no analysis solves.
#include "dsl/functions/traced_function.h"
#include "tegula/block_mask.h"
#include "tegula/tegula.h"

namespace tegula {

/// Returns what the value of a traced mask depends on.
MaskDependence mask_dependence(const TracedFunction& mask);

/// A mask that is evaluated block by block.
struct EvaluatedMask {
  Mask mask;
  MaskDependence dependence;
};

/// Coverage of a block in the results of the coverage kernel.
inline constexpr int kPartialBlock = 1, kFullBlock = 2;

/// Parameters: Coverage, numbers of rows and columns, cu_seqlens of rows and columns if there are
/// several sequences, align_bottom_right, is_transposed (rows are keys), is_wide (the mask receives
/// positions of 64 bits).
using CoverageKernel = KernelOf<Out<i32, 4>, Scalar<i32>, Scalar<i32>, std::optional<In<i32, 1>>,
                                std::optional<In<i32, 1>>, bool, bool, bool>;

/// Returns the kernel that stores to Coverage[b, h, row block, column block] whether the mask keeps
/// all pairs of the block that exist (kFullBlock), some (kPartialBlock) or none (0). With several
/// sequences b is 0, and their blocks are in the columns of their lists.
CoverageKernel make_coverage_kernel(const EvaluatedMask& mask);

}  // namespace tegula
