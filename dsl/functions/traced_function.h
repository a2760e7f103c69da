#pragma once
// A lambda that is an argument of a kernel, traced once over scalars, for all analyses.
#include <cstdint>
#include <memory>
#include <vector>

#include "dsl/instance.h"
#include "ir/analysis/mask/expr.h"
#include "ir/function.h"
#include "tegula/functions.h"
#include "tegula/tensor.h"
#include "tegula/view.h"

namespace tegula {

/// Does not run the lambda or its trace again, and reads nothing, so that it may be made while a
/// kernel is being traced.
class TracedFunction {
 public:
  enum Argument : std::uint8_t { kScore, kBatch, kHead, kQuery, kKey };
  /// Throws what the trace throws.
  explicit TracedFunction(const Score& lambda);

  const ir::Function& function() const { return function_; }
  ir::Value argument(Argument a) const { return function_.arguments[a]; }
  /// Returns the capture that a parameter represents; null if it was not captured.
  const dsl::Capture* capture(ir::Value v) const;

 private:
  std::shared_ptr<const void> closure_;  ///< owns the memory of captures
  std::vector<dsl::Capture> captures_;
  ir::Function function_;
};

/// The expression of a mask, and the sources of its numbers and tables.
struct MaskFunction {
  ir::MaskExpr expr;
  /// The captured Scalar of each slot; null if the slot is not a Scalar.
  std::vector<std::shared_ptr<detail::ScalarCell>> numbers;
  std::vector<bool> is_scalar;  ///< true if a slot has a Scalar
  /// The captured tensor of each slot: the caller's variable, or the mask's own copy of it.
  std::vector<const Tensor*> tables;
  std::shared_ptr<const TracedFunction> owner;  ///< owns the memory of the tables

  /// Returns the Scalar of a Param, in the kernel that is being traced.
  Tile scalar(const ir::MaskNode& n) const {
    return detail::captured_scalar(numbers[static_cast<std::size_t>(n.value)], {});
  }
};

/// Throws what the trace throws.
MaskFunction trace_mask_function(const Mask& mask);

}  // namespace tegula
