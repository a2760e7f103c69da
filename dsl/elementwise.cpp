#include "dsl/elementwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tegula/memory.h"

namespace tegula::dsl {
namespace {

int kind_order(DType d) { return is_bool(d) ? 0 : is_float(d) ? 2 : 1; }

bool fits(std::int64_t v, DType d) {
  if (!is_integer(d)) return true;
  const int bits = size_bits(d);
  if (!is_signed(d)) return v >= 0 && (bits == 64 || v < (std::int64_t{1} << bits));
  return bits == 64 ||
         (v >= -(std::int64_t{1} << (bits - 1)) && v < (std::int64_t{1} << (bits - 1)));
}

DType alone(const Arg& a) {
  if (a.kind() == Arg::Kind::Bool) return DType::i1;
  if (a.kind() == Arg::Kind::Float) return DType::f32;
  return fits(a.as_int(), DType::i32) ? DType::i32 : DType::i64;
}

ir::Value constant(Tracer& t, const Arg& a, DType d) {
  const ir::Type type = ir::Type::scalar(d);
  if (is_float(d)) return t.build.constant(type, a.as_float());
  if (is_bool(d)) return t.build.constant(type, std::int64_t{a.as_int() != 0});
  require_fits(a, d);
  // Infinity saturates, as in the language's cast.
  if (a.kind() == Arg::Kind::Float) return t.build.cast(t.build.f32(a.as_float()), d);
  return t.build.constant(type, a.as_int());
}

/// Returns the element type in which two operands are computed.
DType common_dtype(DType a, DType b) {
  if (a == b) return a;
  if (kind_order(a) != kind_order(b)) return kind_order(a) > kind_order(b) ? a : b;
  if (size_bits(a) != size_bits(b)) return size_bits(a) > size_bits(b) ? a : b;
  if (is_float(a)) return a == DType::bf16 ? b : a;  // f16 wins over bf16; fp8 was rejected
  return is_signed(a) ? b : a;
}

}  // namespace

void require_fits(const Arg& a, DType d) {
  if (!is_integer(d)) return;
  if (a.kind() != Arg::Kind::Float) {
    if (!fits(a.as_int(), d)) fail(ErrorId::literal_range, a.loc(), {}, a.as_int(), name(d));
    return;
  }
  const double v = a.as_float(), end = std::ldexp(1.0, size_bits(d) - (is_signed(d) ? 1 : 0));
  if (std::isfinite(v) && (v != std::trunc(v) || v >= end || v < (is_signed(d) ? -end : 0)))
    fail(ErrorId::literal_range, a.loc(), {}, v, name(d));
}

DType promote_types(Tracer& t, std::string_view what, std::span<const Arg> args) {
  std::optional<DType> tiles, literals;
  const auto add = [](std::optional<DType>& sum, DType d) {
    sum = sum ? common_dtype(*sum, d) : d;
  };
  for (const Arg& a : args) {
    if (a.is_literal()) {
      add(literals, alone(a));
      continue;
    }
    const ir::Type type = t.type(a);
    if (type.is_pointer())
      fail(ErrorId::pointer_operand, a.loc(), {t.origin(t.value(a), "the operand")}, what);
    add(tiles, type.dtype());
  }
  if (!tiles) return *literals;
  // A literal never widens a tile; its kind is used only if the tile's kind is lower.
  if (!literals || kind_order(*literals) <= kind_order(*tiles)) return *tiles;
  return *literals;
}

ir::Value convert(Tracer& t, ir::Value v, DType to) {
  const ir::Type type = t.kernel.type(v);
  if (type.dtype() == to) return v;
  if (!is_bool(to)) {
    const ir::Value out = t.build.cast(v, to);
    t.indices.set_converted(v, out);
    return out;
  }
  const DType d = type.dtype();
  const ir::Type scalar = ir::Type::scalar(d);
  return t.build.cmp("ne", v, t.build.zero(scalar));
}

ir::Value operand(Tracer& t, const Arg& a, DType dtype) {
  if (!a.is_literal()) return convert(t, t.value(a), dtype);
  const ir::Value out = constant(t, a, dtype);
  t.indices.set(out, IndexTypes::Kind::Adapted);
  return out;
}
ir::Value operand(Tracer& t, const Arg& a) {
  return a.is_literal() ? constant(t, a, alone(a)) : t.value(a);
}

bool is_wider_than_indices(Tracer& t, const Arg& a) {
  return !a.is_literal() && size_bits(t.type(a).dtype()) > size_bits(t.index_type());
}

namespace {

/// Replaces an index that does not fit in 32 bits: a box at this index is out of bounds in every
/// tensor. A large power of two preserves the known divisors of the offsets, and sums with extents
/// do not wrap around.
constexpr std::int64_t kOutside = -(std::int64_t{1} << 30);

}  // namespace

ir::Value index_operand(Tracer& t, const Arg& a) {
  if (!is_wider_than_indices(t, a)) return operand(t, a, t.index_type());
  const DType wide = t.type(a).dtype();
  const ir::Value v = t.value(a);
  const auto number = [&](std::int64_t n) { return t.build.constant(ir::Type::scalar(wide), n); };
  ir::Value is_index = t.build.cmp("le", v, number(INT32_MAX));
  if (is_signed(wide))
    is_index = t.build.op(ir::Opcode::And, {t.build.cmp("ge", v, number(INT32_MIN)), is_index});
  const ir::Value narrow = t.build.cast(v, t.index_type());
  const ir::Value outside = t.build.constant(ir::Type::scalar(t.index_type()), kOutside);
  return t.build.select(is_index, narrow, outside);
}

ir::Value end_operand(Tracer& t, const Arg& a) {
  if (!is_wider_than_indices(t, a)) return operand(t, a, t.index_type());
  const DType wide = t.type(a).dtype();
  const auto bounded = [&](ir::Value v, const char* within, std::int64_t limit) {
    const ir::Value at = t.build.constant(ir::Type::scalar(wide), limit);
    return t.build.select(t.build.cmp(within, v, at), v, at);
  };
  ir::Value v = bounded(t.value(a), "le", INT32_MAX);
  if (is_signed(wide)) v = bounded(v, "ge", INT32_MIN);
  return convert(t, v, t.index_type());
}

Tile index_bound(Tracer& t, std::string_view what, const Arg& a) {
  const DType d = promote_types(t, what, std::span(&a, 1));
  require_integers(what, d, a.loc());
  const int width = size_bits(t.index_type());
  if (!a.is_literal() && (size_bits(d) > width || (size_bits(d) == width && !is_signed(d)))) {
    const Tracer::Pin pin(t, a.loc());
    const Tile wide = t.tile(t.value(a));
    assume(wide <= (width == 32 ? INT32_MAX : INT64_MAX));
    if (is_signed(d)) assume(wide >= INT32_MIN);
  }
  return t.tile(operand(t, a, t.index_type()));
}

ir::Value truth(Tracer& t, const Arg& a) { return operand(t, a, DType::i1); }

// ---- shapes -------------------------------------------------------------------------------------
bool can_broadcast(std::span<const std::int64_t> from, std::span<const std::int64_t> to) {
  if (from.size() > to.size()) return false;
  const std::size_t lead = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1 && from[i] != to[lead + i]) return false;
  return true;
}

ir::Value broadcast_to(Tracer& t, ir::Value v, const ir::Ints& shape) {
  const ir::Type type = t.kernel.type(v);
  if (shape.empty()) return v;
  const ir::Type wanted = ir::Type::tile(type.elem(), shape);
  if (type.is_scalar()) return t.build.op(Opcode::Splat, {v}, wanted);
  for (auto rank = static_cast<std::size_t>(type.rank()); rank < shape.size(); ++rank)
    v = t.build.op(Opcode::ExpandDims, {v}, {{AttrName::axis, 0}});
  return t.kernel.type(v) == wanted ? v : t.build.op(Opcode::Broadcast, {v}, wanted);
}

Tile presence(Tracer& t, ir::Value v) {
  return t.tile(t.build.op(Opcode::FillAbsent, {v, t.build.flag(false)},
                           t.kernel.type(v).with_dtype(DType::i1), {{AttrName::kind, "present"}}));
}

void broadcast_shapes(Tracer& t, std::string_view what, std::span<ir::Value> values, Loc loc) {
  ir::Ints shape;
  for (ir::Value v : values) {
    const auto s = t.kernel.type(v).shape();
    const ir::Ints before = shape;
    if (s.size() > shape.size()) shape.insert(shape.begin(), s.size() - shape.size(), 1);
    const std::size_t lead = shape.size() - s.size();
    for (std::size_t i = 0; i < s.size(); ++i) {
      std::int64_t& extent = shape[lead + i];
      if (extent != s[i] && extent != 1 && s[i] != 1) {
        std::vector<Note> notes;
        for (std::size_t n = 0; n < values.size(); ++n)
          notes.push_back(t.origin(values[n], fmt::format("operand {}", n)));
        fail(ErrorId::shapes_differ, loc, std::move(notes), what, extents_text(before),
             extents_text(s));
      }
      extent = std::max(extent, s[i]);
    }
  }
  for (ir::Value& v : values)
    if (!t.kernel.type(v).is_scalar()) v = broadcast_to(t, v, shape);
}

Tile record(std::string_view what, Opcode op, std::initializer_list<Arg> args,
            ir::AttrInits attrs) {
  const std::span<const Arg> list(args.begin(), args.size());
  Tracer& t = Tracer::at(list.front().loc(), what);
  const DType d = promote_types(t, what, list);
  std::array<ir::Value, 3> values;
  for (std::size_t i = 0; i < list.size(); ++i) values[i] = operand(t, list[i], d);
  const std::span<ir::Value> used(values.data(), list.size());
  broadcast_shapes(t, what, used, list.front().loc());
  return t.tile(t.build.op(op, std::span<const ir::Value>(used), attrs));
}

DType order_type(DType d) { return is_f8(d) ? DType::f16 : d; }

/// Converts an extreme back to the operand's type. The bits of an e5m2 number are the upper byte of
/// the same number in f16; they are extracted because a conversion would saturate infinities.
ir::Value from_order_type(Tracer& t, ir::Value v, DType d) {
  if (d != DType::f8e5m2) return convert(t, v, d);
  v = convert(t, v, DType::f16);
  const auto as = [&](DType bits) { return t.kernel.type(v).with_dtype(bits); };
  v = t.build.op(Opcode::Bitcast, {v}, as(DType::u16));
  v = t.build.op(Opcode::Shr, {v, t.build.constant(ir::Type::scalar(DType::u16), std::int64_t{8})});
  v = t.build.cast(v, DType::u8);
  return t.build.op(Opcode::Bitcast, {v}, as(d));
}

Tile record_extreme(std::string_view what, Opcode op, const Arg& a, const Arg& b,
                    ir::AttrInits attrs) {
  Tracer& t = Tracer::at(a.loc(), what);
  const std::array args{a, b};
  const DType d = promote_types(t, what, args), in = order_type(d);
  std::array values{operand(t, a, in), operand(t, b, in)};
  broadcast_shapes(t, what, values, a.loc());
  const ir::Value v = t.build.op(op, std::span<const ir::Value>(values), attrs);
  return t.tile(in == d ? v : from_order_type(t, v, d));
}

int checked_axis(std::string_view what, ir::Type type, int axis, Loc loc) {
  const int rank = static_cast<int>(type.rank());
  if (!type.is_tile()) fail(ErrorId::not_a_tile, loc, {}, what);
  if (axis < -rank || axis >= rank) fail(ErrorId::bad_axis, loc, {}, what, axis, rank);
  return axis < 0 ? axis + rank : axis;
}

void require_integers(std::string_view what, DType d, Loc loc) {
  if (!is_integer(d)) fail(ErrorId::integers_only, loc, {}, what, name(d));
}
void require_floats(std::string_view what, DType d, Loc loc) {
  if (!is_float(d)) fail(ErrorId::floats_only, loc, {}, what, name(d));
  require_arithmetic(what, d, loc);
}
void require_arithmetic(std::string_view what, DType d, Loc loc) {
  if (is_f8(d)) fail(ErrorId::storage_only, loc, {}, what, name(d));
}

}  // namespace tegula::dsl
