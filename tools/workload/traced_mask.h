#pragma once
// A mask with the values that its numbers and tables have now.
#include <cstdint>
#include <vector>

#include "ir/analysis/mask/expr.h"
#include "ir/analysis/mask/table.h"
#include "tegula/functions.h"

namespace tegula {

/// A mask for the analyses of the host.
struct TracedMask {
  ir::MaskExpr expr;
  std::vector<std::int64_t> numbers;  ///< current numbers, by slot of the expression
  std::vector<ir::MaskTable> tables;

  ir::MaskParams params() const { return {numbers, tables}; }
};

TracedMask trace_mask(const Mask& mask);

}  // namespace tegula
