#pragma once
// A mask lambda on its own: traced over scalars, ready for the mask analysis.
#include <cstdint>
#include <vector>

#include "ir/analysis/mask_expr.h"
#include "ir/analysis/mask_table.h"
#include "tegula/kernels/masks.h"

namespace tegula {

struct TracedMask {
  ir::MaskExpr expr;
  std::vector<std::int64_t> numbers;  ///< of this moment, by slot of the expression
  std::vector<ir::MaskTable> tables;

  ir::MaskParams params() const { return {numbers, tables}; }
};

TracedMask trace_mask(const Mask& mask);

}  // namespace tegula
