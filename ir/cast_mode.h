#pragma once
// Rounding and saturation of conversions, shared by the interpreter, the simulator and both
// emitters.
#include "ir/kernel.h"

namespace tegula::ir {

/// Returns true if every value of type `from`, infinities included, is a value of `to`.
bool holds_all(DType to, DType from);

struct CastMode {
  bool to_zero = false;   ///< attr round = rz
  bool saturate = false;  ///< attr sat, and there is something it could change
};
/// Returns the rounding and saturation of an op `cast` with these attributes. `sat` has no effect
/// if the result's type contains all values of the operand's: an infinity stays infinite.
/// Conversions to fp8 from any other type saturate even without `sat`.
CastMode cast_mode(const AttrList& attrs, DType from, DType to);

}  // namespace tegula::ir
