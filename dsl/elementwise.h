#pragma once
// Converts the operands of an elementwise operation before it is recorded: to one element type and
// one shape.
#include <initializer_list>
#include <span>
#include <string_view>

#include "dsl/tracer.h"

namespace tegula::dsl {

/// The type that a literal takes next to `tiles` (none: on its own).
DType promote_types(Tracer& t, std::string_view what, std::span<const Arg> args);

/// The operand as an IR value of `dtype`: literals become constants, others are cast.
ir::Value operand(Tracer& t, const Arg& a, DType dtype);
/// The operand in its own type; literals as they stand alone.
ir::Value operand(Tracer& t, const Arg& a);
/// A value whose type has more bits than indices have.
bool is_wider_than_indices(Tracer& t, const Arg& a);
/// A subscript or a box's first element as an index. What indices do not hold of a wider integer
/// lies outside of every tensor, as the whole box does.
ir::Value index_operand(Tracer& t, const Arg& a);
/// An end of indices: what these do not hold of a wider integer is the nearest one that they do.
ir::Value end_operand(Tracer& t, const Arg& a);
/// A bound of a loop or a grid as an index. What indices do not hold of it, cpu and sim report.
Tile index_bound(Tracer& t, std::string_view what, const Arg& a);
/// Scalar or tile, an i1: numbers are compared with 0.
ir::Value truth(Tracer& t, const Arg& a);
ir::Value convert(Tracer& t, ir::Value v, DType to);
/// The presence of a tile's elements, as i1; all of the result are present.
Tile presence(Tracer& t, ir::Value v);

/// Repeats dimensions of extent 1 until all tiles have one shape; scalars stay scalars.
void broadcast_shapes(Tracer& t, std::string_view what, std::span<ir::Value> values, Loc loc);
ir::Value broadcast_to(Tracer& t, ir::Value v, const ir::Ints& shape);
bool can_broadcast(std::span<const std::int64_t> from, std::span<const std::int64_t> to);

/// The type in which numbers are compared: f16 for floats of 8 bits, which has all of their values.
DType order_type(DType d);
/// A number of order_type(d), or a wider one, that is one of `d`, infinities too.
ir::Value from_order_type(Tracer& t, ir::Value v, DType d);
inline bool is_f8(DType d) { return is_float(d) && size_bits(d) == 8; }
/// The smaller or larger of two numbers, in their type.
Tile record_extreme(std::string_view what, Opcode op, const Arg& a, const Arg& b,
                    ir::AttrInits attrs = {});

/// Records an op on operands that met.
Tile record(std::string_view what, Opcode op, std::initializer_list<Arg> args,
            ir::AttrInits attrs = {});

/// Axis counted from 0.
int checked_axis(std::string_view what, ir::Type type, int axis, Loc loc);

void require_integers(std::string_view what, DType d, Loc loc);
void require_floats(std::string_view what, DType d, Loc loc);
void require_arithmetic(std::string_view what, DType d, Loc loc);

}  // namespace tegula::dsl
