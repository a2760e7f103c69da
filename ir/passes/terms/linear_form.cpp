#include "ir/passes/terms/linear_form.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ir/passes/layouts/split_dim.h"
#include "ir/ramp.h"

namespace tegula::ir {
namespace {

constexpr std::int64_t kExactInF32 = std::int64_t{1} << 24;

bool fit(const RowOrColTerm& x, const RowOrColTerm& y) {
  return x.axis == y.axis || x.axis < 0 || y.axis < 0;
}

/// Returns the dimension along which a broadcast's operand of rank 2 varies; nothing if it is a
/// single number.
std::optional<int> long_axis(Type t) {
  const auto shape = t.shape();
  if (shape.size() != 2 || (shape[0] == 1) == (shape[1] == 1)) return std::nullopt;
  return shape[0] == 1 ? 1 : 0;
}

}  // namespace

bool LinearForms::has_broadcast_dims(Type t) {
  return t.is_tile() && !t.is_pointer() && t.rank() == 2 && t.shape()[0] > 1 && t.shape()[1] > 1;
}

// ---- narrow values ------------------------------------------------------------------------------
/// Returns true if the value may be absent along a dimension of extent 1, which may be outside of
/// its view. Its repetitions are absent along that dimension, and a tile without the dimension
/// could not represent this.
bool LinearForms::may_be_absent_along(Value v, int dim) const {
  if (!k_.type(v).is_tile()) return false;
  const OpId def = k_[v].def;
  if (!def) return true;
  const OpData& d = k_[def];
  using enum Opcode;
  if (d.is(Const, Arange, Splat, FillAbsent)) return false;
  if (!info(d.opcode).is_elementwise() && !d.is(ExpandDims, Permute, Broadcast, Load)) return true;
  return std::ranges::any_of(d.operands, [&](Value x) {
    // A repeated element is absent if the operand's single element is.
    const int operand_dim = d.opcode == Broadcast ? dim : dim_of_operand(k_, d, x, dim);
    return operand_dim != kNotSplit && may_be_absent_along(x, operand_dim);
  });
}

std::optional<int> LinearForms::narrow_axis(Value v) const {
  if (k_.type(v).is_scalar()) return -1;
  const OpId def = k_[v].def;
  if (!def) return std::nullopt;
  const Opcode o = k_[def].opcode;
  if (o == Opcode::Const || o == Opcode::Splat) return -1;
  if (o != Opcode::Broadcast) return std::nullopt;
  const auto axis = long_axis(k_.type(k_[def].operands[0]));
  return axis && may_be_absent_along(k_[def].operands[0], 1 - *axis) ? std::nullopt : axis;
}

std::optional<RowOrColTerm> LinearForms::repeated_scalar(Value v) {
  const Type type = k_.type(v);
  if (type.is_scalar()) return RowOrColTerm{v};
  const OpId def = k_[v].def;
  if (!def) return std::nullopt;
  if (k_[def].opcode == Opcode::Splat) return RowOrColTerm{k_[def].operands[0]};
  if (k_[def].opcode != Opcode::Const) return std::nullopt;
  const Type scalar = Type::of(type.elem());
  const OpId made = b_.create(Opcode::Const, {}, std::span(&scalar, 1), AttrList(k_[def].attrs));
  return RowOrColTerm{k_[made].results[0]};
}

/// Returns [m, 1] or [1, n] as a tile of rank 1. Sums that may be rearranged are made of ramps if
/// possible.
RowOrColTerm LinearForms::squeeze(Value v, int axis) {
  if (const auto scalar = repeated_scalar(v)) return *scalar;
  const OpId def = k_[v].def;
  if (def && k_[def].opcode == Opcode::ExpandDims && k_.type(k_[def].operands[0]).rank() == 1)
    return {k_[def].operands[0], axis};
  if (def && k_[def].attrs.i(AttrName::reassoc) != 0 && k_.type(v).dtype() == DType::f32) {
    const std::vector<Value> operands(k_[def].operands.begin(), k_[def].operands.end());
    const auto x = [&](std::size_t i) { return squeeze(operands[i], axis); };
    using enum Opcode;
    const Opcode o = k_[def].opcode;
    if (o == Add) return add(x(0), x(1));
    if (o == Sub) return add(x(0), neg(x(1)));
    if (o == Mul) return mul(x(0), x(1));
    if (o == Neg) return neg(x(0));
    if (o == Fma) return add(mul(x(0), x(1)), x(2));
    if (o == Cast && !is_float(k_.type(operands[0]).dtype())) return to_float(x(0));
  }
  const std::int64_t extent = k_.type(v).count();
  const Type line = Type::tile(k_.type(v).elem(), std::span(&extent, 1));
  return {b_.op(Opcode::Reshape, {v}, line), axis};
}

std::optional<RowOrColTerm> LinearForms::narrow_of(Value v) {
  const auto axis = narrow_axis(v);
  if (!axis) return std::nullopt;
  if (*axis < 0) return repeated_scalar(v);
  return squeeze(k_[k_[v].def].operands[0], *axis);
}

LinearForm LinearForms::of(Value v) {
  LinearForm f;
  if (const auto n = narrow_of(v))
    f.term(n->axis) = *n;
  else
    f.tile = v;
  return f;
}

std::optional<RowOrColTerm> LinearForms::narrow(const LinearForm& f) {
  if (f.tile || (f.term(0) && f.term(1))) return std::nullopt;
  const LinearForm merged = with_scalar_merged(f);
  for (const RowOrColTerm& n : merged.terms)
    if (n) return n;
  return std::nullopt;
}

RowOrColTerm LinearForms::one(Type t) {
  const Type scalar = Type::of(t.elem());
  return {is_float(t.dtype()) ? b_.constant(scalar, 1.0) : b_.constant(scalar, std::int64_t{1})};
}

RowOrColTerm LinearForms::add(const RowOrColTerm& x, const RowOrColTerm& y) {
  if (!x || !y) return x ? x : y;
  if (x.axis < 0 && number_of(k_, x.value) == 0.0) return y;
  if (y.axis < 0 && number_of(k_, y.value) == 0.0) return x;
  const auto of_x = ramp_of(k_, x.value), of_y = ramp_of(k_, y.value);
  const int axis = std::max(x.axis, y.axis);
  if (of_x && of_y)
    return {make_ramp(b_, {of_x->extent, add({of_x->first}, {of_y->first}).value,
                           add({of_x->step}, {of_y->step}).value}),
            axis};
  if (of_x && y.axis < 0)
    return {make_ramp(b_, {of_x->extent, add({of_x->first}, y).value, of_x->step}), axis};
  if (of_y && x.axis < 0) return add(y, x);
  return {b_.add(x.value, y.value), axis};
}

RowOrColTerm LinearForms::mul(const RowOrColTerm& x, const RowOrColTerm& y) {
  if (!x || !y) return {};  // one of them is 0
  if (x.axis < 0 && number_of(k_, x.value) == 1.0) return y;
  if (y.axis < 0 && number_of(k_, y.value) == 1.0) return x;
  for (const RowOrColTerm& zero : {x, y})
    if (zero.axis < 0 && number_of(k_, zero.value) == 0.0) return zero;
  const auto of_x = ramp_of(k_, x.value), of_y = ramp_of(k_, y.value);
  if (of_x && y.axis < 0)
    return {make_ramp(b_, {of_x->extent, mul({of_x->first}, y).value, mul({of_x->step}, y).value}),
            x.axis};
  if (of_y && x.axis < 0) return mul(y, x);
  return {b_.mul(x.value, y.value), std::max(x.axis, y.axis)};
}

RowOrColTerm LinearForms::neg(const RowOrColTerm& x) {
  if (!x) return x;
  if (const auto r = ramp_of(k_, x.value))
    return {make_ramp(b_, {r->extent, neg({r->first}).value, neg({r->step}).value}), x.axis};
  return {b_.op(Opcode::Neg, {x.value}), x.axis};
}

std::optional<RowOrColTerm> LinearForms::elementwise(OpId like,
                                                     std::span<const RowOrColTerm> operands) {
  RowOrColTerm line;  // an operand that is not a scalar
  std::vector<Value> values;
  for (const RowOrColTerm& n : operands) {
    if (!fit(n, line)) return std::nullopt;
    if (n.axis >= 0) line = n;
    values.push_back(n.value);
  }
  const Elem elem = k_.type(k_[like].results[0]).elem();
  const Type type = line ? k_.type(line.value).with_elem(elem) : Type::of(elem);
  const OpId made =
      b_.create(k_[like].opcode, values, std::span(&type, 1), AttrList(k_[like].attrs));
  return RowOrColTerm{k_[made].results[0], line.axis};
}

// ---- forms --------------------------------------------------------------------------------------
std::optional<LinearForm> LinearForms::sum_of_fulls(const LinearForm& x, const LinearForm& y) {
  if (!x.factor && !y.factor) return LinearForm{b_.add(x.tile, y.tile), {}, {}};
  if (!x.factor) return sum_of_fulls(y, x);
  const Type type = k_.type(x.tile);
  const Value scaled = emit({y.tile, y.factor, {}}, type);
  return LinearForm{b_.op(Opcode::Fma, {x.tile, repeated(x.factor, type), scaled}), {}, {}};
}

/// Merges the scalar into the row or column term if there is only one such term and the other form
/// has one along the same axis. Terms that were rounded together (a maximum that is subtracted)
/// then cancel.
LinearForm LinearForms::merged_with_axis_of(const LinearForm& f, const LinearForm& other) {
  for (const int axis : {0, 1})
    if (f.term(axis) && other.term(axis) && !f.term(1 - axis)) return with_scalar_merged(f);
  return f;
}

std::optional<LinearForm> LinearForms::sum(const LinearForm& a, const LinearForm& b) {
  const LinearForm x = merged_with_axis_of(a, b), y = merged_with_axis_of(b, a);
  const LinearForm& with_tile = x.tile ? x : y;
  LinearForm out{with_tile.tile, with_tile.factor, {}};
  if (x.tile && y.tile) {
    if (x.is_tile() && y.is_tile()) return std::nullopt;
    out = *sum_of_fulls(x, y);
  }
  for (std::size_t i = 0; i < out.terms.size(); ++i) out.terms[i] = add(x.terms[i], y.terms[i]);
  return out;
}

LinearForm LinearForms::negated(const LinearForm& x) {
  LinearForm out = x;
  if (x.tile) out.factor = neg(x.factor ? x.factor : one(k_.type(x.tile)));
  for (RowOrColTerm& t : out.terms) t = neg(t);
  return out;
}

std::optional<LinearForm> LinearForms::product(const LinearForm& x, const LinearForm& y) {
  const auto by = narrow(y);
  if (!by) return narrow(x) ? product(y, x) : std::nullopt;
  LinearForm out{x.tile, x.factor, {}};
  if (x.factor && !fit(x.factor, *by)) return std::nullopt;
  for (const RowOrColTerm& t : x.terms)
    if (t && !fit(t, *by)) return std::nullopt;
  const bool is_one = by->axis < 0 && number_of(k_, by->value) == 1.0;
  if (x.tile && !is_one) out.factor = x.factor ? mul(x.factor, *by) : *by;
  for (const RowOrColTerm& t : x.terms) {
    const RowOrColTerm scaled = mul(t, *by);
    if (scaled) out.term(scaled.axis) = add(out.term(scaled.axis), scaled);
  }
  return out;
}

std::optional<LinearForm> LinearForms::quotient(const LinearForm& x, const LinearForm& y) {
  const auto by = narrow(y);
  if (!by) return std::nullopt;
  LinearForm inverse;
  const RowOrColTerm numerator = one(k_.type(by->value));
  inverse.term(by->axis) = {b_.div(numerator.value, by->value), by->axis};
  return product(x, inverse);
}

RowOrColTerm LinearForms::to_float(const RowOrColTerm& n) {
  const auto i = n.axis < 0 ? std::nullopt : iota_of(b_, n.value);
  if (!i) return {b_.cast(n.value, DType::f32), n.axis};
  Value first = b_.f32(static_cast<double>(i->start));
  if (i->base) {
    const Value start = b_.constant(k_.type(i->base), i->start);
    first = b_.cast(i->start != 0 ? b_.add(i->base, start) : i->base, DType::f32);
  }
  return {make_ramp(b_, {i->extent, first, b_.f32(static_cast<double>(i->step))}), n.axis};
}

// Positions kv - q with kv = n + j and q = m + i, where j and i are small: (n - m) + j is rounded
// like the result, and j and i are exact. Without this split, kv and q would each be rounded beyond
// 2^24, and their difference would be off by whole positions.
std::optional<LinearForm> LinearForms::cast(const LinearForm& x, DType to) {
  if (x.tile || to != DType::f32) return std::nullopt;
  LinearForm out;
  if (!x.term(0) || !x.term(1)) {
    const auto n = narrow(x);
    if (!n) return std::nullopt;
    out.term(n->axis) = to_float(*n);
    return out;
  }
  // Rows first: loop invariants stay in registers, and a thread has few rows.
  for (const int axis : {0, 1}) {
    const auto i = iota_of(b_, x.term(axis).value);
    if (!i || std::abs(i->start) + std::abs(i->step) * i->extent > kExactInF32) continue;
    const RowOrColTerm ahead = i->base ? add(x.term(-1), {i->base}) : x.term(-1);
    out.term(axis) = {make_ramp(b_, {i->extent, b_.f32(static_cast<double>(i->start)),
                                     b_.f32(static_cast<double>(i->step))}),
                      axis};
    out.term(1 - axis) = to_float(add(x.term(1 - axis), ahead));
    return out;
  }
  return std::nullopt;
}

// ---- back to tiles ------------------------------------------------------------------------------
/// Merges the scalar term into that of a dimension: into a ramp at no cost, else into the rows, of
/// which a thread has fewer.
LinearForm LinearForms::with_scalar_merged(LinearForm f) {
  if (!f.term(-1) || (!f.term(0) && !f.term(1))) return f;
  const bool columns = f.term(1) && (!f.term(0) || ramp_of(k_, f.term(1).value));
  RowOrColTerm& into = f.term(columns ? 1 : 0);
  into = add(into, f.term(-1));
  f.term(-1) = {};
  return f;
}

Value LinearForms::repeated(const RowOrColTerm& n, Type type) {
  if (n.axis < 0) return n.value;
  const Value line = b_.op(Opcode::ExpandDims, {n.value}, {{AttrName::axis, 1 - n.axis}});
  return b_.op(Opcode::Broadcast, {line}, type.with_elem(k_.type(n.value).elem()));
}

Value LinearForms::emit(const LinearForm& form, Type type) {
  const LinearForm f = with_scalar_merged(form);
  std::vector<Value> rest;
  for (const int axis : {1, 0, -1})
    if (f.term(axis)) rest.push_back(repeated(f.term(axis), type));
  Value v = f.tile;
  std::size_t used = 0;
  if (f.tile && f.factor) {
    const Value factor = repeated(f.factor, type);
    v = rest.empty() ? b_.mul(v, factor) : b_.op(Opcode::Fma, {v, factor, rest[used++]});
  } else if (!f.tile) {
    v = rest[used++];
  }
  for (; used < rest.size(); ++used)
    v = b_.op(Opcode::Add, {v, rest[used]}, {{AttrName::reassoc, 1}});
  return k_.type(v).is_tile() ? v : b_.op(Opcode::Splat, {v}, type);
}

Value LinearForms::emit_folded(Value x, const LinearForm& form) {
  const LinearForm f = with_scalar_merged(form);
  const RowOrColTerm term = f.term(-1) ? f.term(-1) : f.term(0) ? f.term(0) : f.term(1);
  if (f.factor && term) return b_.op(Opcode::Fma, {x, f.factor.value, term.value});
  if (f.factor) return b_.mul(x, f.factor.value);
  return term ? b_.add(x, term.value) : x;
}

}  // namespace tegula::ir
