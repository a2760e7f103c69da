#pragma once
// A lambda that is an argument of a kernel, traced once over scalars: what every analysis asks.
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

/// Runs neither the lambda nor its trace again, and reads nothing, so that it may be made while a
/// kernel is being traced.
class TracedFunction {
 public:
  enum Argument : std::uint8_t { kScore, kBatch, kHead, kQuery, kKey };
  /// Throws what the trace throws.
  explicit TracedFunction(const Score& lambda);

  const ir::Function& function() const { return function_; }
  ir::Value argument(Argument a) const { return function_.arguments[a]; }
  /// The capture behind a parameter; null if it was not captured.
  const dsl::Capture* capture(ir::Value v) const;

 private:
  std::shared_ptr<const void> closure_;  ///< owns the memory of captures
  std::vector<dsl::Capture> captures_;
  ir::Function function_;
};

/// The expression of a mask, and where its numbers and tables come from.
struct MaskFunction {
  ir::MaskExpr expr;
  /// The captured Scalar of each slot; null: a number that is none.
  std::vector<std::shared_ptr<detail::ScalarCell>> numbers;
  std::vector<bool> is_scalar;  ///< whether a slot has a Scalar
  /// The captured tensor of each slot: the caller's variable, or the mask's own copy of it.
  std::vector<const Tensor*> tables;
  std::shared_ptr<const TracedFunction> owner;  ///< owns the memory of the tables

  /// The Scalar behind a Param, in the kernel that is being traced.
  Tile scalar(const ir::MaskNode& n) const {
    return detail::captured_scalar(numbers[static_cast<std::size_t>(n.value)], {});
  }
};

/// Throws what the trace throws.
MaskFunction trace_mask_function(const Mask& mask);

}  // namespace tegula
