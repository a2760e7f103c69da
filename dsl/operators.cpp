// The C++ operators: their operand types, and the op that each records.
#include "dsl/elementwise.h"
#include "tegula/math.h"
#include "tegula/tile_ops.h"

namespace tegula {
namespace {

/// Returns the operands' common type for arithmetic, with i32 in place of i1.
DType arithmetic_type(Tracer& t, std::string_view what, std::span<const Arg> args) {
  const DType d = dsl::promote_types(t, what, args);
  dsl::require_arithmetic(what, d, args.front().loc());
  return is_bool(d) ? DType::i32 : d;
}

Tile binary(std::string_view what, Opcode op, const Arg& a, const Arg& b, DType d,
            ir::AttrInits attrs = {}) {
  Tracer& t = Tracer::at(a.loc(), what);
  ir::Value values[] = {dsl::operand(t, a, d), dsl::operand(t, b, d)};
  dsl::broadcast_shapes(t, what, values, a.loc());
  return t.tile(t.build.op(op, std::span<const ir::Value>(values), attrs));
}

Tile arithmetic(std::string_view what, Opcode op, const Arg& a, const Arg& b) {
  Tracer& t = Tracer::at(a.loc(), what);
  const Arg args[] = {a, b};
  return binary(what, op, a, b, arithmetic_type(t, what, args));
}

Tile of_integers(std::string_view what, Opcode op, const Arg& a, const Arg& b) {
  Tracer& t = Tracer::at(a.loc(), what);
  const Arg args[] = {a, b};
  const DType d = arithmetic_type(t, what, args);
  dsl::require_integers(what, d, a.loc());
  return binary(what, op, a, b, d);
}

Tile bitwise(std::string_view what, Opcode op, const Arg& a, const Arg& b) {
  Tracer& t = Tracer::at(a.loc(), what);
  const Arg args[] = {a, b};
  const DType d = dsl::promote_types(t, what, args);
  if (!is_bool(d)) dsl::require_integers(what, d, a.loc());
  return binary(what, op, a, b, d);
}

/// Records a shift; the amount takes the type of the shifted operand.
Tile shift(std::string_view what, Opcode op, const Arg& a, const Arg& b) {
  Tracer& t = Tracer::at(a.loc(), what);
  const Arg leading[] = {a.is_literal() ? b : a};
  const Arg amount[] = {b};
  const DType d = arithmetic_type(t, what, leading);
  dsl::require_integers(what, d, a.loc());
  dsl::require_integers(what, arithmetic_type(t, what, amount), b.loc());
  return binary(what, op, a, b, d);
}

/// Rejects chained comparisons: `low < x < high` is `(low < x) < high` in C++, which is nearly
/// always true.
void refuse_comparison(Tracer& t, std::string_view what, const Arg& a) {
  if (a.is_literal() || !a.present()) return;
  const ir::Value v = t.value(a);
  const ir::OpId def = t.kernel[v].def;
  if (def && t.kernel[def].opcode == Opcode::Cmp)
    fail(ErrorId::compared_comparison, a.loc(), {t.origin(v, "the operand")}, what);
}

Tile compare(std::string_view what, std::string_view predicate, const Arg& a, const Arg& b) {
  Tracer& t = Tracer::at(a.loc(), what);
  const Arg args[] = {a, b};
  if (predicate != "eq" && predicate != "ne")
    for (const Arg& x : args) refuse_comparison(t, what, x);
  const DType d = dsl::order_type(dsl::promote_types(t, what, args));
  return binary(what, Opcode::Cmp, a, b, is_bool(d) ? DType::i32 : d,
                {{dsl::AttrName::pred, predicate}});
}

Tile logical(std::string_view what, Opcode op, const Arg& a, const Arg& b) {
  Tracer& t = Tracer::at(a.loc(), what);
  ir::Value values[] = {dsl::truth(t, a), dsl::truth(t, b)};
  dsl::broadcast_shapes(t, what, values, a.loc());
  return t.tile(t.build.op(op, std::span<const ir::Value>(values)));
}

bool is_pointer(const Arg& a) {
  if (a.is_literal() || !a.present()) return false;
  Tracer& t = Tracer::at(a.loc(), "an operation");
  return t.type(a).is_pointer();
}

Tile advance(const Arg& pointer, const Arg& offset, bool backwards) {
  Tracer& t = Tracer::at(pointer.loc(), "+");
  const Arg args[] = {offset};
  const DType d = arithmetic_type(t, "+", args);
  dsl::require_integers("pointer offset", d, offset.loc());
  ir::Value values[] = {t.value(pointer), dsl::operand(t, offset, d)};
  if (backwards) values[1] = t.build.op(Opcode::Neg, {values[1]});
  dsl::broadcast_shapes(t, "+", values, pointer.loc());
  return t.tile(t.build.op(Opcode::AddPtr, std::span<const ir::Value>(values)));
}

/// Returns the tile with the location where it was made: the best one available if the operator
/// could not capture the user's.
Arg placed(const Tile& x) {
  Tracer& t = Tracer::at({}, "an operation");
  const ir::Value v = t.value(x);
  const ir::OpId def = t.kernel[v].def;
  return Tracer::arg(v, def ? t.kernel[def].loc : t.build.loc);
}

}  // namespace

Tile operator+(const Arg& a, const Arg& b) {
  if (is_pointer(a)) return advance(a, b, false);
  if (is_pointer(b)) return advance(b, a, false);
  return arithmetic("+", Opcode::Add, a, b);
}
Tile operator-(const Arg& a, const Arg& b) {
  return is_pointer(a) ? advance(a, b, true) : arithmetic("-", Opcode::Sub, a, b);
}
Tile operator*(const Arg& a, const Arg& b) { return arithmetic("*", Opcode::Mul, a, b); }
Tile operator/(const Arg& a, const Arg& b) { return arithmetic("/", Opcode::Div, a, b); }
Tile operator%(const Arg& a, const Arg& b) { return of_integers("%", Opcode::Rem, a, b); }
Tile operator&(const Arg& a, const Arg& b) { return bitwise("&", Opcode::And, a, b); }
Tile operator|(const Arg& a, const Arg& b) { return bitwise("|", Opcode::Or, a, b); }
Tile operator^(const Arg& a, const Arg& b) { return bitwise("^", Opcode::Xor, a, b); }
Tile operator<<(const Arg& a, const Arg& b) { return shift("<<", Opcode::Shl, a, b); }
Tile operator>>(const Arg& a, const Arg& b) { return shift(">>", Opcode::Shr, a, b); }

Tile operator-(const Arg& a) {
  Tracer& t = Tracer::at(a.loc(), "-");
  const DType d = arithmetic_type(t, "-", std::span(&a, 1));
  return t.tile(t.build.op(Opcode::Neg, {dsl::operand(t, a, d)}));
}
Tile operator~(const Arg& a) {
  Tracer& t = Tracer::at(a.loc(), "~");
  const DType d = dsl::promote_types(t, "~", std::span(&a, 1));
  if (!is_bool(d)) dsl::require_integers("~", d, a.loc());
  return t.tile(t.build.op(Opcode::Not, {dsl::operand(t, a, d)}));
}

Tile operator==(const Arg& a, const Arg& b) { return compare("==", "eq", a, b); }
Tile operator!=(const Arg& a, const Arg& b) { return compare("!=", "ne", a, b); }
Tile operator<(const Arg& a, const Arg& b) { return compare("<", "lt", a, b); }
Tile operator<=(const Arg& a, const Arg& b) { return compare("<=", "le", a, b); }
Tile operator>(const Arg& a, const Arg& b) { return compare(">", "gt", a, b); }
Tile operator>=(const Arg& a, const Arg& b) { return compare(">=", "ge", a, b); }

Tile operator&&(const Arg& a, const Arg& b) { return logical("&&", Opcode::And, a, b); }
Tile operator||(const Arg& a, const Arg& b) { return logical("||", Opcode::Or, a, b); }
Tile operator!(const Arg& a) {
  Tracer& t = Tracer::at(a.loc(), "!");
  return t.tile(t.build.op(Opcode::Not, {dsl::truth(t, a)}));
}
Tile operator&&(const Tile& a, const Tile& b) { return placed(a) && placed(b); }
Tile operator||(const Tile& a, const Tile& b) { return placed(a) || placed(b); }
Tile operator!(const Tile& a) { return !placed(a); }

// `a op= b` changes a only where b has an element: absent elements of b are replaced by the neutral
// element.
namespace {

/// Returns true if elements of the operand may be absent where the tile `a` has some.
bool may_lack(const Tile& a, const Arg& b) {
  if (b.is_literal()) return false;
  Tracer& t = Tracer::at(b.loc(), "an assignment");
  return t.type(a).is_tile() && t.type(b).is_tile() && !t.type(b).is_pointer() &&
         !t.type(a).is_pointer();
}

/// Returns the operand with `neutral` in place of absent elements; for integers -1 is all ones.
Arg filled(const Tile& a, const Arg& b, double neutral) {
  if (!may_lack(a, b)) return b;
  Tracer& t = Tracer::at(b.loc(), "an assignment");
  const double value = is_bool(t.type(b).dtype()) && neutral < 0 ? 1 : neutral;
  return Arg(fill_absent(b, value)).at(b.loc());
}

}  // namespace

Tile& operator+=(Tile& a, const Arg& b) { return a = Arg(a).at(b.loc()) + filled(a, b, 0); }
Tile& operator-=(Tile& a, const Arg& b) { return a = Arg(a).at(b.loc()) - filled(a, b, 0); }
Tile& operator*=(Tile& a, const Arg& b) { return a = Arg(a).at(b.loc()) * filled(a, b, 1); }
Tile& operator/=(Tile& a, const Arg& b) { return a = Arg(a).at(b.loc()) / filled(a, b, 1); }
Tile& operator%=(Tile& a, const Arg& b) {
  const Arg old = Arg(a).at(b.loc());
  if (!may_lack(a, b)) return a = old % b;
  Tracer& t = Tracer::at(b.loc(), "an assignment");
  const Tile there = dsl::presence(t, t.value(b));
  return a = where(Arg(there).at(b.loc()), old % filled(a, b, 1), old);
}
Tile& operator&=(Tile& a, const Arg& b) { return a = Arg(a).at(b.loc()) & filled(a, b, -1); }
Tile& operator|=(Tile& a, const Arg& b) { return a = Arg(a).at(b.loc()) | filled(a, b, 0); }
Tile& operator^=(Tile& a, const Arg& b) { return a = Arg(a).at(b.loc()) ^ filled(a, b, 0); }
Tile& operator<<=(Tile& a, const Arg& b) { return a = Arg(a).at(b.loc()) << filled(a, b, 0); }
Tile& operator>>=(Tile& a, const Arg& b) { return a = Arg(a).at(b.loc()) >> filled(a, b, 0); }

}  // namespace tegula
