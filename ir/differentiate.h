#pragma once
// Reverse-mode derivatives of recorded ops. The rule of each op is a row of ir/vjp.def.
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"

namespace tegula::ir {

/// The adjoint of a scalar parameter, or of the elements that one op has read from a view.
struct LoadAdjoint {
  Value param;  ///< the scalar or the view
  OpId load;    ///< load_view, or load for elements at index tiles; none for a scalar
  Value adjoint;
};

/// Results of differentiate(). No adjoint means 0: the result does not depend on the value.
struct ValueAdjoints {
  std::unordered_map<Value, Value> of;
  std::vector<LoadAdjoint> loads;
};

/// Returns the value that a carry of an open loop, whose op does not have its operands yet, had
/// before the loop; none for other values.
using BeforeLoop = std::function<Value(Value)>;

/// Emits at `b` the adjoints of the values `wrt`, and of what was read from `params` (views and
/// scalar parameters), for the float `y` with adjoint `dy`: an f32 or f64 of y's shape. Adjoints
/// have dy's element type. Where the derivative is 1, the adjoint is `dy` itself.
///
/// Operands of the ops that compute y must be visible at `b`. Branches, and loops whose carries are
/// sums, are computed again with their adjoints; loops of up to 8 iterations are unrolled. Emitted
/// ops have the location and the flags of the op whose rule they follow. Throws CompileError T1022
/// at the location of an op without derivative.
ValueAdjoints differentiate(Builder& b, Value y, Value dy, std::span<const Value> wrt,
                            std::span<const Value> params = {}, BeforeLoop before_loop = {});

}  // namespace tegula::ir
