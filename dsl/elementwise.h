#pragma once
// Converts the operands of an elementwise operation to one element type and one shape before it is
// recorded.
#include <initializer_list>
#include <span>
#include <string_view>

#include "dsl/tracer.h"

namespace tegula::dsl {

/// Throws T0104 for a literal that an integer type cannot hold; infinity saturates.
void require_fits(const Arg& literal, DType type);
/// Returns the common element type of the operands; literals adapt to tiles.
DType promote_types(Tracer& t, std::string_view what, std::span<const Arg> args);

/// Returns the operand as an IR value of `dtype`: literals become constants, others are cast.
ir::Value operand(Tracer& t, const Arg& a, DType dtype);
/// Returns the operand in its own type; literals take their default type.
ir::Value operand(Tracer& t, const Arg& a);
/// Returns true if the type of the value has more bits than indices have.
bool is_wider_than_indices(Tracer& t, const Arg& a);
/// Returns a subscript or a box's first element as an index. A wider integer that an index cannot
/// represent is outside of every tensor, and so is the whole box.
ir::Value index_operand(Tracer& t, const Arg& a);
/// Returns an end of indices: a wider integer saturates to the range of indices.
ir::Value end_operand(Tracer& t, const Arg& a);
/// Returns a bound of a loop or a grid as an index. cpu and sim report bounds that do not fit.
Tile index_bound(Tracer& t, std::string_view what, const Arg& a);
/// Returns an i1, scalar or tile: numbers are compared with 0.
ir::Value truth(Tracer& t, const Arg& a);
ir::Value convert(Tracer& t, ir::Value v, DType to);
/// Returns the presence of a tile's elements as i1; all elements of the result are present.
Tile presence(Tracer& t, ir::Value v);

/// Repeats dimensions of extent 1 until all tiles have the same shape; scalars stay scalars.
void broadcast_shapes(Tracer& t, std::string_view what, std::span<ir::Value> values, Loc loc);
ir::Value broadcast_to(Tracer& t, ir::Value v, const ir::Ints& shape);
bool can_broadcast(std::span<const std::int64_t> from, std::span<const std::int64_t> to);

/// Returns the type in which numbers are compared: f16 for 8-bit floats, because it represents all
/// of their values.
DType order_type(DType d);
/// Converts a number of order_type(d), or of a wider type, that `d` can represent, or an infinity,
/// to `d`.
ir::Value from_order_type(Tracer& t, ir::Value v, DType d);
inline bool is_f8(DType d) { return is_float(d) && size_bits(d) == 8; }
/// Records the smaller or larger of two numbers, in their type.
Tile record_extreme(std::string_view what, Opcode op, const Arg& a, const Arg& b,
                    ir::AttrInits attrs = {});

/// Records an op on operands after promotion and broadcasting.
Tile record(std::string_view what, Opcode op, std::initializer_list<Arg> args,
            ir::AttrInits attrs = {});

/// Returns the axis, counted from 0.
int checked_axis(std::string_view what, ir::Type type, int axis, Loc loc);

void require_integers(std::string_view what, DType d, Loc loc);
void require_floats(std::string_view what, DType d, Loc loc);
void require_arithmetic(std::string_view what, DType d, Loc loc);

}  // namespace tegula::dsl
