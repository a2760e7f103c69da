#pragma once
// How a conversion goes, decided once: interpreter, simulator and both emitters ask here.
#include "ir/kernel.h"

namespace tegula::ir {

/// Every value of type `from`, infinities included, is a value of `to`.
bool holds_all(DType to, DType from);

struct CastMode {
  bool to_zero = false;   ///< attr round = rz
  bool saturate = false;  ///< attr sat, and there is something it could change
};
/// Rounding and saturation of an op `cast` with these attributes. `sat` has no effect if the
/// result's type holds all values of the operand's: an infinity stays one. fp8 is never reached by
/// overflow: a conversion to it saturates even without `sat`, unless it is from its own type.
CastMode cast_mode(const AttrList& attrs, DType from, DType to);

}  // namespace tegula::ir
