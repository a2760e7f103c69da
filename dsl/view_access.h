#pragma once
// Parts of views as addresses, for what boxes cannot say: gathers, scatters and atomics.
#include "dsl/tracer.h"
#include "ir/view_addresses.h"

namespace tegula::dsl {

ir::ViewAddresses addresses(Tracer& t, const ViewAccessRecord& part);

/// Operands and attributes of an op on a part that is a box, which loads it or stores a value.
std::vector<ir::Value> box_operands(Tracer& t, const ViewAccessRecord& part, ir::Value stored = {});
ir::AttrList box_attrs(const ViewAccessRecord& part);
/// The same elements as a tile of another shape.
ir::Value shaped(Tracer& t, ir::Value v, ir::Type type);
/// A tile of the part's shape without the elements at or beyond the ends of its indices.
ir::Value cropped(Tracer& t, const ViewAccessRecord& part, ir::Value v);

/// The value of a store, in the type and shape of its target.
ir::Value stored_value(Tracer& t, const Arg& value, ir::Type target, Loc loc);

}  // namespace tegula::dsl
