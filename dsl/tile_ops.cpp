// Creation, shape, folds, scans and the matrix product of tiles.
#include "tegula/tile_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "dsl/elementwise.h"
#include "ir/loop.h"
#include "ir/reshape_groups.h"
#include "tegula/math.h"

namespace tegula {
namespace {

ir::Ints checked_shape(std::span<const Extent> extents) {
  ir::Ints shape;
  for (const Extent& e : extents) {
    if (e.value() <= 0) fail(ErrorId::bad_extent, e.loc(), {}, e.value());
    shape.push_back(e.value());
  }
  return shape;
}

ir::Ints positive(std::initializer_list<Extent> extents, Loc loc) {
  ir::Ints shape;
  for (const Extent& e : extents) {
    if (e.value() <= 0) fail(ErrorId::bad_extent, loc, {}, e.value());
    shape.push_back(e.value());
  }
  return shape;
}

constexpr std::int64_t kTooMany = std::int64_t{1} << 30;

/// Returns the number of elements of a tile of that shape, at most kTooMany.
std::int64_t count(std::span<const std::int64_t> shape) {
  std::int64_t n = 1;
  for (std::int64_t e : shape) n = std::min(n * std::min(e, kTooMany), kTooMany);
  return n;
}

}  // namespace

// ---- creation -----------------------------------------------------------------------------------
Tile detail::filled(const Arg& value, DType dtype, std::span<const Extent> extents) {
  Tracer& t = Tracer::at(value.loc(), "full");
  const ir::Ints shape = checked_shape(extents);
  if (!value.is_literal() || shape.empty())
    return t.tile(dsl::broadcast_to(t, dsl::operand(t, value, dtype), shape));
  const ir::Type type = ir::Type::tile({dtype, false}, shape);
  if (is_float(dtype)) return t.tile(t.build.constant(type, value.as_float()));
  dsl::require_fits(value, dtype);
  const std::int64_t n = value.kind() == Arg::Kind::Float
                             ? static_cast<std::int64_t>(value.as_float())
                             : value.as_int();
  return t.tile(t.build.constant(type, is_bool(dtype) ? std::int64_t{n != 0} : n));
}

Tile arange(Extent n, std::int64_t start) {
  Tracer& t = Tracer::at(n.loc(), "arange");
  const ir::Type type = ir::Type::tile({DType::i32, false}, checked_shape(std::span(&n, 1)));
  return t.tile(t.build.op(Opcode::Arange, {}, type, {{AttrName::start, start}}));
}

// ---- shape --------------------------------------------------------------------------------------
Tile expand(const Arg& x, int axis) {
  Tracer& t = Tracer::at(x.loc(), "expand");
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  const int rank = static_cast<int>(type.rank()) + 1;
  if (axis < -rank || axis >= rank)
    fail(ErrorId::bad_axis, x.loc(), {t.origin(v, "the tile")}, "expand", axis, rank);
  if (type.is_scalar()) return t.tile(dsl::broadcast_to(t, v, {1}));
  return t.tile(
      t.build.op(Opcode::ExpandDims, {v}, {{AttrName::axis, axis < 0 ? axis + rank : axis}}));
}

Tile broadcast(const Arg& x, std::initializer_list<Extent> extents) {
  Tracer& t = Tracer::at(x.loc(), "broadcast");
  const ir::Value v = dsl::operand(t, x);
  const ir::Ints shape = positive(extents, x.loc());
  const auto from = t.kernel.type(v).shape();
  if (!dsl::can_broadcast(from, shape))
    fail(ErrorId::bad_broadcast, x.loc(), {t.origin(v, "the tile")}, dsl::extents_text(from),
         dsl::extents_text(shape));
  return t.tile(dsl::broadcast_to(t, v, shape));
}

Tile reshape(const Arg& x, std::initializer_list<Extent> extents) {
  Tracer& t = Tracer::at(x.loc(), "reshape");
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  const ir::Ints shape = positive(extents, x.loc());
  if (type.is_scalar()) return broadcast(x, extents);
  if (count(shape) != type.count())
    fail(ErrorId::bad_reshape, x.loc(), {t.origin(v, "the tile")}, dsl::extents_text(type.shape()),
         type.count(), dsl::extents_text(shape), count(shape));
  return t.tile(t.build.op(Opcode::Reshape, {v}, ir::Type::tile(type.elem(), shape)));
}

namespace {
Tile permuted(Tracer& t, ir::Value v, const ir::Ints& order) {
  const ir::Value out = t.build.op(Opcode::Permute, {v}, {{AttrName::order, order}});
  if (const auto at = t.indexed_by.find(v); at != t.indexed_by.end()) {
    const std::vector<ir::Value> indices = at->second;
    for (std::int64_t d : order) t.indexed_by[out].push_back(indices[static_cast<std::size_t>(d)]);
  }
  return t.tile(out);
}
}  // namespace

Tile permute(const Arg& x, std::initializer_list<int> dims) {
  Tracer& t = Tracer::at(x.loc(), "permute");
  const ir::Value v = dsl::operand(t, x);
  const ir::Ints order(dims.begin(), dims.end());
  ir::Ints sorted = order;
  std::ranges::sort(sorted);
  bool ok = static_cast<std::int64_t>(order.size()) == t.kernel.type(v).rank();
  for (std::size_t i = 0; i < sorted.size(); ++i) ok &= sorted[i] == static_cast<std::int64_t>(i);
  if (!ok)
    fail(ErrorId::bad_permutation, x.loc(), {t.origin(v, "the tile")}, dsl::extents_text(order),
         t.kernel.type(v).rank());
  return permuted(t, v, order);
}

Tile trans(const Arg& x) {
  Tracer& t = Tracer::at(x.loc(), "trans");
  const ir::Value v = dsl::operand(t, x);
  const std::int64_t rank = t.kernel.type(v).rank();
  if (rank < 2) fail(ErrorId::bad_axis, x.loc(), {t.origin(v, "the tile")}, "trans", -2, rank);
  ir::Ints order;
  for (std::int64_t i = 0; i < rank; ++i) order.push_back(i);
  std::swap(order[static_cast<std::size_t>(rank - 1)], order[static_cast<std::size_t>(rank - 2)]);
  return permuted(t, v, order);
}

namespace {

/// Returns the dimension of the op's first operand that becomes dimension `d` of its result; -1 if
/// there is none.
int dim_before(const ir::Kernel& k, ir::OpId op, int d) {
  const ir::OpData& data = k[op];
  const auto from = k.type(data.operands[0]).shape(), to = k.type(data.results[0]).shape();
  const int axis = static_cast<int>(data.attrs.i(AttrName::axis));
  const auto is_same_extent = [&](int before) {
    return before >= 0 && before < static_cast<int>(from.size()) &&
           from[static_cast<std::size_t>(before)] == to[static_cast<std::size_t>(d)];
  };
  if (data.opcode == Opcode::ExpandDims) return d == axis ? -1 : d - (d > axis ? 1 : 0);
  if (data.is(Opcode::Reduce, Opcode::ArgReduce, Opcode::ReduceWith))
    return d + (d >= axis ? 1 : 0);
  if (data.opcode == Opcode::Permute)
    return static_cast<int>(data.attrs.ints(AttrName::order)[static_cast<std::size_t>(d)]);
  if (data.opcode == Opcode::Reshape)
    for (int before = 0; before < static_cast<int>(from.size()); ++before)
      if (ir::dim_after_reshape(from, to, before) == d) return is_same_extent(before) ? before : -1;
  return data.opcode != Opcode::Reshape && is_same_extent(d) ? d : -1;
}

using TileAxis = std::pair<ir::Value, int>;

/// Returns the dimensions of the op's operands that become dimension `d` of the value.
std::vector<TileAxis> axes_before(const Tracer& t, ir::Value v, int d) {
  const ir::Kernel& k = t.kernel;
  if (const ir::Value before = t.before_loop(v)) return {{before, d}};
  if (const auto merge = ir::merge_of(k, v)) return {{ir::incoming_values(k, *merge)[0], d}};
  const ir::OpId def = k[v].def;
  if (!def) return {};
  const ir::OpData& data = k[def];
  if (data.opcode == Opcode::Dot) {
    const bool is_row = d == k.type(v).rank() - 2;
    return {{data.operands[is_row ? 0 : d > 0 ? 1 : 0], d}};
  }
  using enum Opcode;
  if (data.is(ExpandDims, Permute, Reshape, Broadcast, Reduce, ArgReduce, ReduceWith))
    return {{data.operands[0], dim_before(k, def, d)}};
  std::vector<TileAxis> all;
  if (ir::info(data.opcode).is_elementwise() || data.is(Crop, FillAbsent, Scan, Sort))
    for (const ir::Value operand : data.operands)
      if (k.type(operand).is_tile()) all.emplace_back(operand, d);
  return all;
}

/// Returns the view dimension that `all` read with room for more elements than may exist, if it is
/// dimension `d` of the value.
std::optional<std::int64_t> padded_dim(const Tracer& t, ir::Value v, int d) {
  std::vector<TileAxis> left{{v, d}};
  std::set<TileAxis> seen;
  while (!left.empty()) {
    const auto [value, axis] = left.back();
    left.pop_back();
    if (axis < 0 || !seen.emplace(value, axis).second) continue;
    if (const auto it = t.padded.find(value); it != t.padded.end()) {
      const std::int64_t of_view =
          t.kernel[t.kernel[value].def].attrs.ints(AttrName::axes)[static_cast<std::size_t>(axis)];
      if (std::ranges::find(it->second, of_view) != it->second.end()) return of_view;
    }
    for (const TileAxis& before : axes_before(t, value, axis)) left.push_back(before);
  }
  return {};
}

}  // namespace

TileDim Tile::dim(int axis, std::source_location at) const {
  Tracer& t = Tracer::at(at, "the shape of a tile");
  const ir::Value v = t.value(Arg(*this, at));
  const int d = dsl::checked_axis("dim", t.kernel.type(v), axis, at);
  return {t.kernel.type(v).shape()[static_cast<std::size_t>(d)], axis,
          padded_dim(t, v, d).value_or(-1), at};
}
TileDim::operator std::int64_t() const {
  if (view_dim_ >= 0) fail(ErrorId::dim_of_all, loc_, {}, axis_, extent_, view_dim_, axis_);
  return extent_;
}
Tile Tile::T(std::source_location at) const { return trans(Arg(*this, at)); }
Tile Tile::expand(int axis, std::source_location at) const {
  return tegula::expand(Arg(*this, at), axis);
}
Tile Tile::reshape(std::initializer_list<Extent> shape, std::source_location at) const {
  return tegula::reshape(Arg(*this, at), shape);
}

// ---- folds --------------------------------------------------------------------------------------
namespace {

constexpr int kAllAxes = std::numeric_limits<int>::min();

/// Folds one dimension, or all dimensions from the last to the first, so that the result does not
/// depend on whether the caller names them.
Tile fold(std::string_view what, const char* kind, const Arg& x, int axis, DType in) {
  Tracer& t = Tracer::at(x.loc(), what);
  ir::Value v = dsl::operand(t, x, in);
  if (axis != kAllAxes) {
    const int a = dsl::checked_axis(what, t.kernel.type(v), axis, x.loc());
    return t.tile(t.build.op(Opcode::Reduce, {v}, {{AttrName::axis, a}, {AttrName::kind, kind}}));
  }
  while (t.kernel.type(v).is_tile())
    v = t.build.op(Opcode::Reduce, {v},
                   {{AttrName::axis, t.kernel.type(v).rank() - 1}, {AttrName::kind, kind}});
  return t.tile(v);
}

/// Forms sums and products in a type that can represent them.
Tile accumulate(std::string_view what, const char* kind, const Arg& x, int axis) {
  Tracer& t = Tracer::at(x.loc(), what);
  const DType d = dsl::promote_types(t, what, std::span(&x, 1));
  dsl::require_arithmetic(what, d, x.loc());
  if (is_float(d)) {
    const Tracer::Pin pin(t, x.loc());
    return cast(fold(what, kind, x, axis, d == DType::f64 ? d : DType::f32), d);
  }
  return fold(what, kind, x, axis, size_bits(d) < 32 ? DType::i32 : d);
}

Tile folded_extreme(std::string_view what, const char* kind, const Arg& x, int axis) {
  Tracer& t = Tracer::at(x.loc(), what);
  const DType d = dsl::promote_types(t, what, std::span(&x, 1));
  const Tile best = fold(what, kind, x, axis, is_bool(d) ? DType::i32 : dsl::order_type(d));
  return dsl::is_f8(d) ? t.tile(dsl::from_order_type(t, t.value(best), d)) : best;
}

/// Rejects tiles, because max(tile, 1) could mean either.
void require_scalar(std::string_view what, const Arg& x, const Arg& n) {
  Tracer& t = Tracer::at(x.loc(), what);
  if (x.is_literal() || t.type(x).is_scalar()) return;
  fail(ErrorId::fold_or_compare, x.loc(), {t.origin(t.value(x), "the tile")}, what, n.as_int(),
       what, n.as_int(), what, n.as_int());
}

Tile folded_logical(std::string_view what, const char* kind, const Arg& x, int axis) {
  Tracer& t = Tracer::at(x.loc(), what);
  const DType d = dsl::promote_types(t, what, std::span(&x, 1));
  if (!is_bool(d))
    fail(ErrorId::condition_type, x.loc(), {}, what, name(d), "compare, e.g. x != 0");
  return fold(what, kind, x, axis, d);
}

std::pair<Tile, Tile> arg_reduce(std::string_view what, const char* kind, const Arg& x, int axis) {
  Tracer& t = Tracer::at(x.loc(), what);
  ir::Value v = dsl::operand(t, x);
  const DType d = t.kernel.type(v).dtype();
  v = dsl::convert(t, v, dsl::order_type(d));
  const int a = dsl::checked_axis(what, t.kernel.type(v), axis, x.loc());
  ir::AttrList attrs = ir::attr_list({{AttrName::axis, a}, {AttrName::kind, kind}});
  const ir::OpId op = t.build.create(Opcode::ArgReduce, std::span(&v, 1), std::move(attrs));
  const Tile best = t.tile(t.kernel[op].results[0]), at = t.tile(t.kernel[op].results[1]);
  return {dsl::is_f8(d) ? t.tile(dsl::from_order_type(t, t.value(best), d)) : best, at};
}

}  // namespace

Tile sum(const Arg& x) { return accumulate("sum", "sum", x, kAllAxes); }
Tile sum(const Arg& x, Axis axis) { return accumulate("sum", "sum", x, axis.value()); }
Tile prod(const Arg& x) { return accumulate("prod", "prod", x, kAllAxes); }
Tile prod(const Arg& x, Axis axis) { return accumulate("prod", "prod", x, axis.value()); }
Tile max(const Arg& x) { return folded_extreme("max", "max", x, kAllAxes); }
Tile max(const Arg& x, Axis axis) { return folded_extreme("max", "max", x, axis.value()); }
Tile min(const Arg& x) { return folded_extreme("min", "min", x, kAllAxes); }
Tile min(const Arg& x, Axis axis) { return folded_extreme("min", "min", x, axis.value()); }
Tile detail::max_with_integer(const Arg& x, const Arg& n) {
  require_scalar("max", x, n);
  return max(x, n);
}
Tile detail::min_with_integer(const Arg& x, const Arg& n) {
  require_scalar("min", x, n);
  return min(x, n);
}
Tile any(const Arg& x) { return folded_logical("any", "or", x, kAllAxes); }
Tile any(const Arg& x, Axis axis) { return folded_logical("any", "or", x, axis.value()); }
Tile All::operator()(const Arg& x) const { return folded_logical("all", "and", x, kAllAxes); }
Tile All::operator()(const Arg& x, int axis) const { return folded_logical("all", "and", x, axis); }
std::pair<Tile, Tile> max_and_argmax(const Arg& x, Axis axis) {
  return arg_reduce("argmax", "max", x, axis.value());
}
std::pair<Tile, Tile> min_and_argmin(const Arg& x, Axis axis) {
  return arg_reduce("argmin", "min", x, axis.value());
}
Tile argmax(const Arg& x, Axis axis) { return max_and_argmax(x, axis).second; }
Tile argmin(const Arg& x, Axis axis) { return min_and_argmin(x, axis).second; }
// ---- the matrix product -------------------------------------------------------------------------
namespace {

DType accumulator_type(DType d, Loc loc) {
  if (d == DType::f64) return d;
  if (is_float(d)) return DType::f32;
  if (is_integer(d) && size_bits(d) == 8) return DType::i32;
  fail(ErrorId::dot_type, loc, {}, name(d));
}

/// Returns a hint for the likely cause: both operands end in the contracted dimension.
std::string contraction_hint(ir::Type a, ir::Type b) {
  const auto row = static_cast<std::size_t>(a.rank() - 2);
  if (a.shape()[row + 1] == b.shape()[row + 1])
    return "both operands end in the contracted dimension; write .T() after the second";
  if (a.shape()[row] == b.shape()[row])
    return "both operands begin with the contracted dimension; write .T() after the first";
  return "the last dimension of the first operand is contracted with the first of the second";
}

/// Rejects an index that is contracted on one side and kept on the other: extents may agree by
/// chance.
void check_indices(Tracer& t, ir::Value a, ir::Value b, Loc loc, const std::vector<Note>& notes) {
  // The same tile twice is an intended square.
  if (a == b || t.kernel.type(a).rank() != 2) return;
  const auto ia = t.indexed_by.find(a), ib = t.indexed_by.find(b);
  if (ia == t.indexed_by.end() || ib == t.indexed_by.end()) return;
  const auto &left = ia->second, &right = ib->second;
  if (left[1] == right[0]) return;
  if (left[1] == right[1])
    fail(ErrorId::dot_indices, loc, notes, "last", ".T() after the second operand");
  if (left[0] == right[0])
    fail(ErrorId::dot_indices, loc, notes, "first", ".T() after the first operand");
}

}  // namespace

namespace {

Tile record_fill(const Arg& x, double value, ir::AttrInits attrs) {
  Tracer& t = Tracer::at(x.loc(), "fill_absent");
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v), scalar = ir::Type::of(type.elem());
  const ir::Value fill = is_float(type.dtype())
                             ? t.build.constant(scalar, value)
                             : t.build.constant(scalar, static_cast<std::int64_t>(value));
  return t.tile(t.build.op(Opcode::FillAbsent, {v, fill}, type, attrs));
}

}  // namespace

Tile fill_absent(const Arg& x, double value) { return record_fill(x, value, {}); }
Tile fill_absent(const Arg& x, AnyValue) { return record_fill(x, 0, {{AttrName::kind, "any"}}); }

Tile crop(const Arg& x, Axis axis, const Arg& first, const Arg& end) {
  Tracer& t = Tracer::at(x.loc(), "crop");
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  const int at = dsl::checked_axis("crop", type, axis.value(), x.loc());
  return t.tile(t.build.op(Opcode::Crop,
                           {v, dsl::index_operand(t, first), dsl::end_operand(t, end)}, type,
                           {{AttrName::axis, at}}));
}

namespace {

/// Checks that both operands are matrices, or batches of matrices.
void check_product(ir::Type a, ir::Type b, Loc at, const std::vector<Note>& notes) {
  for (ir::Type type : {a, b})
    if (!type.is_tile() || (type.rank() != 2 && type.rank() != 3) || type.rank() != a.rank())
      fail(ErrorId::dot_rank, at, notes, type.str(), type.rank());
  if (a.dtype() != b.dtype()) fail(ErrorId::dot_types, at, notes, name(a.dtype()), name(b.dtype()));
  const auto row = static_cast<std::size_t>(a.rank() - 2);
  if (row == 1 && a.shape()[0] != b.shape()[0])
    fail(ErrorId::dot_batches, at, notes, a.shape()[0], b.shape()[0]);
  if (a.shape()[row + 1] != b.shape()[row])
    fail(ErrorId::dot_contraction, at, notes, a.shape()[row + 1], b.shape()[row],
         contraction_hint(a, b));
}

}  // namespace

Tile dot(const Arg& a, const Arg& b, const Arg& acc, Precision precision) {
  Tracer& t = Tracer::at(a.loc(), "dot");
  const Loc at = a.loc();
  const ir::Value va = dsl::operand(t, a), vb = dsl::operand(t, b);
  const ir::Type ta = t.kernel.type(va), tb = t.kernel.type(vb);
  const std::vector<Note> notes{t.origin(va, "operand 0"), t.origin(vb, "operand 1")};
  check_product(ta, tb, at, notes);
  check_indices(t, va, vb, at, notes);
  const DType sum = accumulator_type(ta.dtype(), at);
  ir::Ints shape(ta.shape().begin(), ta.shape().end());
  shape.back() = tb.shape().back();
  const ir::Type wanted = ir::Type::tile({sum, false}, shape);
  ir::Value vc;
  if (!acc.present() || acc.is_literal()) {
    const double start = acc.present() ? acc.as_float() : 0;
    vc = is_float(sum) ? t.build.constant(wanted, start)
                       : t.build.constant(wanted, static_cast<std::int64_t>(start));
  } else {
    vc = t.value(acc);
    const ir::Type tc = t.kernel.type(vc);
    const std::vector<Note> of_acc{t.origin(vc, "the accumulator")};
    if (tc.dtype() != sum)
      fail(ErrorId::dot_acc_type, at, of_acc, name(ta.dtype()), name(sum), name(tc.dtype()),
           name(sum));
    if (!std::ranges::equal(tc.shape(), shape))
      fail(ErrorId::dot_acc_shape, at, of_acc, dsl::extents_text(tc.shape()),
           dsl::extents_text(shape), fmt::join(shape, ", "));
  }
  if (precision == Precision::tf32)
    return t.tile(t.build.op(Opcode::Dot, {va, vb, vc}, {{AttrName::precision, "tf32"}}));
  return t.tile(t.build.op(Opcode::Dot, {va, vb, vc}));
}

}  // namespace tegula
