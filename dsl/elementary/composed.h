#pragma once
// Functions of floats that are composed of operations: small floats are computed in f32 and rounded
// once, and all operations are recorded at the location of the user's call.
#include "dsl/elementwise.h"
#include "tegula/math.h"

namespace tegula::dsl {

/// Returns the type in which a function of operands of type `d` is computed.
inline DType computed_in(DType d) { return d == DType::f64 ? d : DType::f32; }

/// Returns `f` of one operand, as f32 or f64.
template <class F>
Tile composed(std::string_view what, const Arg& x, const F& f) {
  Tracer& t = Tracer::at(x.loc(), what);
  const DType d = promote_types(t, what, std::span(&x, 1));
  require_floats(what, d, x.loc());
  const Tracer::Pin pin(t, x.loc());
  const Tile result = f(t.tile(operand(t, x, computed_in(d))));
  return result.dtype() == DType::i1 ? result : cast(result, d);
}

/// Returns `f` of two operands, which its operations broadcast.
template <class F>
Tile composed(std::string_view what, const Arg& x, const Arg& y, const F& f) {
  Tracer& t = Tracer::at(x.loc(), what);
  const Arg args[] = {x, y};
  const DType d = promote_types(t, what, args);
  require_floats(what, d, x.loc());
  const Tracer::Pin pin(t, x.loc());
  const DType wide = computed_in(d);
  return cast(
      f(t.tile(convert(t, operand(t, x, d), wide)), t.tile(convert(t, operand(t, y, d), wide))), d);
}

}  // namespace tegula::dsl
