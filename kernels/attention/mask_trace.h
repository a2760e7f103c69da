#pragma once
// A mask lambda on its own: traced over scalars, ready for the mask analysis.
#include <cstdint>
#include <vector>

#include "ir/analysis/mask_expr.h"
#include "tegula/kernels/masks.h"

namespace tegula {

struct TracedMask {
  ir::MaskExpr expr;
  std::vector<std::int64_t> params;  ///< of this moment, by slot of the expression
};

TracedMask trace_mask(const Mask& mask);

}  // namespace tegula
