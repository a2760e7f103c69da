// The derivatives of ops: each rule gives the adjoints of the operands for the adjoint g of the
// result.
#include <algorithm>
#include <numbers>

#include "ir/access.h"
#include "ir/vjp.h"

namespace tegula::ir {
namespace {

/// At a tie, an operand that does not depend on x is the result, else the second one.
void extreme(Vjp& v) {
  const std::size_t last = v.wants(1) && !v.wants(0) ? 0 : 1;
  const Value is_last = v.b.cmp("eq", v.op.results[0], v.op.operands[last]);
  v.give_where(last, is_last, true, v.g);
  v.give_where(1 - last, is_last, false, v.g);
}

/// Logarithms approximate and flush subnormal arguments, so their slope may, too.
Value approximate_share(Vjp& v, Value g) {
  return v.mul(g, v.emit(Opcode::Rcp, {v.x()}, {{AttrName::approx, 1}}));
}

/// Returns f(x), computed in f32: the hardware has no functions of f64.
Value of_f32(Vjp& v, Opcode f, Value x) {
  return v.b.cast(v.emit(f, {v.b.cast(x, DType::f32)}), v.sweep.type);
}
Value of_operand(Vjp& v, Opcode f) { return of_f32(v, f, v.op.operands[0]); }

void read(Vjp& v, Value view) {
  if (v.sweep.place == Sweep::Place::Region)
    v.refuse("reads a tensor whose gradient is required in a branch or a loop: read it before");
  v.sweep.loads.push_back({view, v.id, v.counted(v.g)});
}

}  // namespace

// ---- arithmetic
void vjp_Add(Vjp& v) {
  v.give(0, v.g);
  v.give(1, v.g);
}

void vjp_Sub(Vjp& v) {
  v.give(0, v.g);
  if (v.wants(1)) v.give(1, v.neg(v.g));
}

void vjp_Mul(Vjp& v) {
  if (v.wants(0)) v.give_product(0, v.g, v.x(1));
  if (v.wants(1)) v.give_product(1, v.g, v.x(0));
}

void vjp_Fma(Vjp& v) {
  vjp_Mul(v);
  v.give(2, v.g);
}

void vjp_Div(Vjp& v) {
  const Value share = v.div(v.g, v.x(1));
  v.give(0, share);
  if (v.wants(1)) v.give_product(1, v.neg(share), v.y());
}

void vjp_Neg(Vjp& v) { v.give(0, v.neg(v.g)); }

/// The slope at 0 is 0.
void vjp_Abs(Vjp& v) {
  const Value x = v.op.operands[0], zero = v.b.zero(Type::scalar(v.b.kernel().type(x).dtype()));
  const Value negative = v.b.cmp("lt", x, zero);
  v.give_where(0, v.b.cmp("eq", x, zero), false, v.b.select(negative, v.neg(v.g), v.g));
}

void vjp_Min(Vjp& v) { extreme(v); }
void vjp_Max(Vjp& v) { extreme(v); }

void vjp_Select(Vjp& v) {
  v.give_where(1, v.op.operands[0], true, v.g);
  v.give_where(2, v.op.operands[0], false, v.g);
}

/// Rounding counts as the identity.
void vjp_Cast(Vjp& v) { v.give(0, v.g); }

// ---- functions
void vjp_Exp2(Vjp& v) { v.give_product(0, v.mul(v.g, v.number(std::numbers::ln2)), v.y()); }
void vjp_Exp(Vjp& v) { v.give_product(0, v.g, v.y()); }

void vjp_Log2(Vjp& v) {
  v.give(0, approximate_share(v, v.mul(v.g, v.number(std::numbers::log2e))));
}
void vjp_Log(Vjp& v) { v.give(0, approximate_share(v, v.g)); }

void vjp_Sqrt(Vjp& v) { v.give(0, v.div(v.mul(v.g, v.number(0.5)), v.y())); }

void vjp_Rsqrt(Vjp& v) {
  const Value y = v.y();
  v.give_product(0, v.mul(v.mul(v.g, v.number(-0.5)), y), v.mul(y, y));
}

void vjp_Rcp(Vjp& v) {
  const Value y = v.y();
  v.give_product(0, v.neg(v.mul(v.g, y)), y);
}

/// (1 - y) (1 + y) does not cancel near 0; near 1 the error is that of y.
void vjp_Tanh(Vjp& v) {
  const Value y = v.y(), one = v.number(1);
  v.give_product(0, v.mul(v.g, v.emit(Opcode::Sub, {one, y})), v.emit(Opcode::Add, {one, y}));
}
void vjp_TanhApprox(Vjp& v) { vjp_Tanh(v); }

void vjp_Sin(Vjp& v) { v.give_product(0, v.g, of_operand(v, Opcode::Cos)); }
void vjp_Cos(Vjp& v) { v.give_product(0, v.neg(v.g), of_operand(v, Opcode::Sin)); }
void vjp_SinApprox(Vjp& v) { v.give_product(0, v.g, of_operand(v, Opcode::CosApprox)); }
void vjp_CosApprox(Vjp& v) { v.give_product(0, v.neg(v.g), of_operand(v, Opcode::SinApprox)); }

void vjp_Erf(Vjp& v) {
  const Value x = v.x(), power = v.mul(v.mul(x, x), v.number(-std::numbers::log2e));
  v.give_product(0, v.mul(v.g, v.number(2 * std::numbers::inv_sqrtpi)),
                 of_f32(v, Opcode::Exp2, power));
}

void vjp_WithGradient(Vjp& v) {
  v.give(0, v.g);  // another with_gradient, or not wanted
  if (v.wants(1)) v.give_product(1, v.g, v.x(2));
}

// ---- shapes
void vjp_Splat(Vjp& v) { v.give(0, v.g); }
void vjp_Broadcast(Vjp& v) { v.give(0, v.g); }

void vjp_Reshape(Vjp& v) {
  const Type whole = v.b.kernel().type(v.op.operands[0]).with_dtype(v.sweep.type);
  v.give(0, v.b.op(Opcode::Reshape, {v.g}, whole));
}
void vjp_ExpandDims(Vjp& v) { vjp_Reshape(v); }

void vjp_Permute(Vjp& v) {
  const auto order = v.op.attrs.ints(AttrName::order);
  Ints inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  v.give(0, v.b.op(Opcode::Permute, {v.g}, {{AttrName::order, inverse}}));
}

void vjp_FillAbsent(Vjp& v) {
  const std::string_view kind = v.op.attrs.s(AttrName::kind);
  if (kind == "present") return;
  if (kind == "any") return v.give(0, v.g);  // absent elements do not matter
  Kernel& k = v.b.kernel();
  const Value x = v.op.operands[0];
  const Value is_present = v.b.op(Opcode::FillAbsent, {x, v.b.flag(false)},
                                  k.type(x).with_dtype(DType::i1), {{AttrName::kind, "present"}});
  v.give_where(0, is_present, true, v.g);
  v.give_where(1, is_present, false, v.g);
}

/// Elements that the crop makes absent have no adjoint.
void vjp_Crop(Vjp& v) {
  const Type type = v.b.kernel().type(v.g);
  const Value part = v.b.op(Opcode::Crop, {v.g, v.op.operands[1], v.op.operands[2]}, type,
                            {{AttrName::axis, v.op.attrs.i(AttrName::axis)}});
  v.give(0, v.b.op(Opcode::FillAbsent, {part, v.b.zero(Type::scalar(v.sweep.type))}, type));
}

void vjp_Reduce(Vjp& v) {
  if (v.op.attrs.s(AttrName::kind) != "sum") v.refuse("has no derivative here, unless it is a sum");
  const Type whole = v.b.kernel().type(v.op.operands[0]).with_dtype(v.sweep.type);
  if (whole.rank() == 1) return v.give(0, v.b.op(Opcode::Splat, {v.g}, whole));
  const Value line =
      v.b.op(Opcode::ExpandDims, {v.g}, {{AttrName::axis, v.op.attrs.i(AttrName::axis)}});
  v.give(0, v.b.op(Opcode::Broadcast, {line}, whole));
}

// ---- memory
void vjp_LoadView(Vjp& v) { read(v, accessed_view(v.op)); }

void vjp_Load(Vjp& v) {
  const Kernel& k = v.b.kernel();
  Value from = v.op.operands[0];
  while (k[from].def) from = k[k[from].def].operands[0];
  if (v.wants(0)) read(v, from);
  if (v.op.operands.size() == 3) v.give_where(2, v.op.operands[1], false, v.g);
}

}  // namespace tegula::ir
