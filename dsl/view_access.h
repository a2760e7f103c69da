#pragma once
// Lowers accesses to parts of views: to boxes, or to addresses for gathers, scatters and atomics.
#include "dsl/tracer.h"
#include "ir/access.h"
#include "ir/view_addresses.h"

namespace tegula::dsl {

ir::ViewAddresses addresses(Tracer& t, const ViewAccessRecord& part);

/// Returns the access of an op that loads the part as a box, or that stores `stored` to it.
ir::BoxAccess box_access(Tracer& t, const ViewAccessRecord& part, ir::Value stored = {});
/// Returns the same elements as a tile of another shape.
ir::Value shaped(Tracer& t, ir::Value v, ir::Type type);
/// Returns the tile, which has the shape of the part, with the elements outside of the bounds of
/// the part's indices marked absent.
ir::Value cropped(Tracer& t, const ViewAccessRecord& part, ir::Value v);

/// Returns the value of a store, in the type and shape of its target.
ir::Value stored_value(Tracer& t, const Arg& value, ir::Type target, Loc loc);

}  // namespace tegula::dsl
