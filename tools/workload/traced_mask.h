#pragma once
// A mask with the current values of its numbers and tables.
#include <cstdint>
#include <vector>

#include "ir/analysis/mask/expr.h"
#include "ir/analysis/mask/table.h"
#include "tegula/functions.h"

namespace tegula {

/// A mask in the form that host analyses use.
struct TracedMask {
  ir::MaskExpr expr;
  std::vector<std::int64_t> numbers;  ///< current values, by slot of the expression
  std::vector<ir::MaskTable> tables;

  ir::MaskParams params() const { return {numbers, tables}; }
};

TracedMask trace_mask(const Mask& mask);

}  // namespace tegula
