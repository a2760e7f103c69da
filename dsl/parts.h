#pragma once
// Parts of views as addresses, for what boxes cannot say: gathers, scatters and atomics.
#include "dsl/tracer.h"

namespace tegula::dsl {

struct Addresses {
  ir::Value pointers;
  ir::Value inside;  ///< i1: within the tensor
};
Addresses addresses(Tracer& t, const NamedPart& part);

/// The same part selected by index tiles.
NamedPart as_gather(Tracer& t, NamedPart part);

/// The value of a store, in the type and shape of its target.
ir::Value stored_value(Tracer& t, const Arg& value, ir::Type target, Loc loc);

}  // namespace tegula::dsl
