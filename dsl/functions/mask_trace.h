#pragma once
// A mask lambda on its own: traced over scalars, ready for the mask analysis.
#include <cstdint>
#include <memory>
#include <vector>

#include "ir/analysis/mask/expr.h"
#include "ir/analysis/mask/table.h"
#include "tegula/functions.h"
#include "tegula/tensor.h"

namespace tegula {

/// The expression, and where its numbers and tables come from. Reads nothing, so that it may run
/// while a kernel is being traced.
struct MaskSource {
  ir::MaskExpr expr;
  /// The captured Scalar of each slot; null: a number that is none.
  std::vector<std::shared_ptr<detail::ScalarCell>> numbers;
  /// The captured tensor of each slot: the caller's variable, or the mask's own copy of it.
  std::vector<const Tensor*> tables;
  std::shared_ptr<const void> owner;  ///< owns the memory of the tables
};

MaskSource trace_mask_source(const Mask& mask);

struct TracedMask {
  ir::MaskExpr expr;
  std::vector<std::int64_t> numbers;  ///< current numbers, by slot of the expression
  std::vector<ir::MaskTable> tables;

  ir::MaskParams params() const { return {numbers, tables}; }
};

TracedMask trace_mask(const Mask& mask);

}  // namespace tegula
