#include "ir/ramp.h"

namespace tegula::ir {
namespace {

/// Returns `v` if it is a scalar, or the scalar that it repeats if it is a splat; null otherwise.
Value added_scalar(const Kernel& k, Value v) {
  if (k.type(v).is_scalar()) return v;
  const OpId def = k[v].def;
  return def && k[def].opcode == Opcode::Splat ? k[def].operands[0] : Value();
}

Value sum(Builder& b, Value x, Value y) { return x ? b.add(x, y) : y; }

std::optional<IntRamp> reversed(Builder& b, std::optional<IntRamp> i) {
  if (!i) return i;
  if (i->base) i->base = b.op(Opcode::Neg, {i->base});
  i->start = -i->start;
  i->step = -i->step;
  return i;
}

}  // namespace

std::optional<IntRamp> iota_of(Builder& b, Value v) {
  const Kernel& k = b.kernel();
  const OpId def = k[v].def;
  if (!def || !k.type(v).is_tile()) return std::nullopt;
  const Opcode o = k[def].opcode;
  using enum Opcode;
  if (o == Arange) return IntRamp{k.type(v).count(), k[def].attrs.i(AttrName::start), 1, {}};
  if (o != ExpandDims && o != Reshape && o != Add && o != Sub && o != Neg) return std::nullopt;
  // A copy, not a reference to the op: creating sums of bases may move the ops.
  const Value x = k[def].operands[0];
  if (o == ExpandDims || o == Reshape) return iota_of(b, x);
  if (o == Neg) return reversed(b, iota_of(b, x));
  const Value y = k[def].operands[1];
  const Value of_x = added_scalar(k, x), of_y = added_scalar(k, y);
  if (!of_x == !of_y) return std::nullopt;
  std::optional<IntRamp> i = iota_of(b, of_x ? y : x);
  if (!i) return std::nullopt;
  if (o == Add) {
    i->base = sum(b, i->base, of_x ? of_x : of_y);
  } else if (of_y) {
    i->base = b.sub(i->base ? i->base : b.constant(k.type(of_y), std::int64_t{0}), of_y);
  } else {
    i = reversed(b, i);
    i->base = sum(b, i->base, of_x);
  }
  return i;
}

std::optional<Ramp> ramp_of(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def || k[def].opcode != Opcode::Fma || !k[def].attrs.i(AttrName::reassoc))
    return std::nullopt;
  const OpData& d = k[def];
  const OpId index = k[d.operands[0]].def;
  const bool is_ramp = index && k[index].opcode == Opcode::Arange &&
                       k[index].attrs.i(AttrName::start) == 0 &&
                       k.type(d.operands[1]).is_scalar() && k.type(d.operands[2]).is_scalar();
  if (!is_ramp) return std::nullopt;
  return Ramp{k.type(v).count(), d.operands[2], d.operands[1]};
}

Value make_ramp(Builder& b, const Ramp& r) {
  const Type type = Type::tile({DType::f32, false}, std::span(&r.extent, 1));
  const Value index = b.op(Opcode::Arange, {}, type, {{AttrName::start, 0}});
  return b.op(Opcode::Fma, {index, r.step, r.first}, {{AttrName::reassoc, 1}});
}

std::optional<double> number_of(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def || k[def].opcode != Opcode::Const || k.type(v).is_pointer()) return std::nullopt;
  if (is_float(k.type(v).dtype())) return k[def].attrs.f(AttrName::value);
  return static_cast<double>(k[def].attrs.i(AttrName::value));
}

}  // namespace tegula::ir
