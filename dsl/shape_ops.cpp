// Shape operations of tiles. They are composed of four IR ops: a slice, a concatenation, and
// selections by an index.
#include "tegula/shape_ops.h"

#include <algorithm>

#include "dsl/elementwise.h"
#include "tegula/math.h"

namespace tegula {
namespace {

ir::Ints shape_of(Tracer& t, ir::Value v) {
  const auto shape = t.kernel.type(v).shape();
  return {shape.begin(), shape.end()};
}

Tile reshaped(Tracer& t, ir::Value v, const ir::Ints& shape) {
  return t.tile(t.build.op(Opcode::Reshape, {v}, ir::Type::tile(t.kernel.type(v).elem(), shape)));
}

/// Removes dimension `a` of extent 1. If no dimension remains, a fold of the one element gives a
/// scalar.
Tile without(Tracer& t, ir::Value v, int a) {
  const ir::Type type = t.kernel.type(v);
  ir::Ints shape = shape_of(t, v);
  shape.erase(shape.begin() + a);
  if (!shape.empty()) return reshaped(t, v, shape);
  const char* const kind = is_bool(type.dtype()) ? "or" : "sum";
  return t.tile(t.build.op(Opcode::Reduce, {v}, {{AttrName::axis, a}, {AttrName::kind, kind}}));
}

ir::Value sliced(Tracer& t, ir::Value v, int a, std::int64_t first, std::int64_t extent) {
  ir::Ints shape = shape_of(t, v), offsets(shape.size(), 0);
  std::int64_t& whole = shape[static_cast<std::size_t>(a)];
  if (whole == extent) return v;
  whole = extent;
  offsets[static_cast<std::size_t>(a)] = first;
  return t.build.op(Opcode::TileSlice, {v}, ir::Type::tile(t.kernel.type(v).elem(), shape),
                    {{AttrName::offsets, offsets}});
}

void check_range(Tracer& t, std::string_view what, ir::Value v, int a, std::int64_t first,
                 std::int64_t extent, Loc loc) {
  const std::int64_t whole = t.kernel.type(v).shape()[static_cast<std::size_t>(a)];
  if (extent <= 0) fail(ErrorId::bad_extent, loc, {}, extent);
  if (first < 0 || first + extent > whole)
    fail(ErrorId::bad_slice, loc, {t.origin(v, "the tile")}, what, first, first + extent, whole, a);
}

/// Returns an index of 32 or 64 bits; an unsigned one that is too large becomes negative, and so is
/// out of bounds too.
ir::Value checked_index(Tracer& t, std::string_view what, const Arg& index) {
  const ir::Value v = dsl::operand(t, index);
  if (t.kernel.type(v).is_pointer())
    fail(ErrorId::pointer_operand, index.loc(), {t.origin(v, "the index")}, what);
  const DType d = t.kernel.type(v).dtype();
  if (!is_integer(d) || is_bool(d)) dsl::require_integers(what, d, index.loc());
  if (d == DType::i32 || d == DType::i64) return v;
  return dsl::convert(t, v, size_bits(d) == 64 ? DType::i64 : DType::i32);
}

/// Returns the shape of `v`, with extents of 1 replaced by those of `other`, except along `a`.
ir::Ints with_lines_of(const ir::Ints& own, const ir::Ints& other, int a) {
  ir::Ints shape = own;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (static_cast<int>(d) != a) shape[d] = std::max(shape[d], other[d]);
  return shape;
}

/// Repeats extents of 1 until the two agree, except along `a`. With `keeps_first` only the second
/// is repeated.
void meet(Tracer& t, std::string_view what, ir::Value& first, ir::Value& second, int a,
          bool keeps_first, Loc loc) {
  const ir::Ints one = shape_of(t, first), two = shape_of(t, second);
  bool fits = one.size() == two.size();
  for (std::size_t d = 0; fits && d < one.size(); ++d)
    fits = static_cast<int>(d) == a || one[d] == two[d] || two[d] == 1 ||
           (one[d] == 1 && !keeps_first);
  if (!fits)
    fail(ErrorId::lines_differ, loc, {t.origin(first, "the tile"), t.origin(second, "the index")},
         what, dsl::extents_text(one), dsl::extents_text(two), a);
  first = dsl::broadcast_to(t, first, with_lines_of(one, two, a));
  second = dsl::broadcast_to(t, second, with_lines_of(two, one, a));
}

Tile gathered(Tracer& t, ir::Value v, ir::Value index, int a) {
  return t.tile(t.build.op(Opcode::Gather, {v, index}, {{AttrName::axis, a}}));
}

Tile concatenated(Tracer& t, std::span<const ir::Value> parts, int a) {
  if (parts.size() == 1) return t.tile(parts[0]);
  return t.tile(t.build.op(Opcode::TileConcat, parts, {{AttrName::axis, a}}));
}

const char* name_of(Combine c) {
  constexpr std::array kNames{"store", "add", "max", "min", "or"};
  return kNames.at(static_cast<std::size_t>(c));
}

}  // namespace

// ---- parts --------------------------------------------------------------------------------------
Tile slice(const Arg& x, Axis axis, int first, int extent) {
  Tracer& t = Tracer::at(x.loc(), "slice");
  const ir::Value v = dsl::operand(t, x);
  const int a = dsl::checked_axis("slice", t.kernel.type(v), axis.value(), x.loc());
  check_range(t, "slice", v, a, first, extent, x.loc());
  return t.tile(sliced(t, v, a, first, extent));
}

Tile extract(const Arg& x, Axis axis, const Arg& i) {
  Tracer& t = Tracer::at(x.loc(), "extract");
  const ir::Value v = dsl::operand(t, x);
  const int a = dsl::checked_axis("extract", t.kernel.type(v), axis.value(), x.loc());
  if (i.is_literal()) {
    check_range(t, "extract", v, a, i.as_int(), 1, i.loc());
    return without(t, sliced(t, v, a, i.as_int(), 1), a);
  }
  const ir::Value at = checked_index(t, "extract", i);
  if (!t.kernel.type(at).is_scalar())
    fail(ErrorId::scalar_required, i.loc(), {t.origin(at, "the index")}, "extract",
         t.type_text(at));
  ir::Ints shape = shape_of(t, v);
  shape[static_cast<std::size_t>(a)] = 1;
  const Tile line = gathered(t, v, dsl::broadcast_to(t, at, shape), a);
  return without(t, t.value(line), a);
}

Tile insert(const Arg& x, Axis axis, const Arg& i, const Arg& value) {
  Tracer& t = Tracer::at(x.loc(), "insert");
  const Tracer::Pin pin(t, x.loc());
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  const int a = dsl::checked_axis("insert", type, axis.value(), x.loc());
  if (i.is_literal()) check_range(t, "insert", v, a, i.as_int(), 1, i.loc());
  const ir::Value at = checked_index(t, "insert", i);
  if (!t.kernel.type(at).is_scalar())
    fail(ErrorId::scalar_required, i.loc(), {t.origin(at, "the index")}, "insert", t.type_text(at));
  ir::Ints line(static_cast<std::size_t>(type.rank()), 1);
  line[static_cast<std::size_t>(a)] = type.shape()[static_cast<std::size_t>(a)];
  const Tile numbers = arange(line[static_cast<std::size_t>(a)]);
  const Tile is_it = reshaped(
      t, t.build.cmp("eq", dsl::convert(t, t.value(numbers), t.kernel.type(at).dtype()), at), line);
  const ir::Value given = dsl::operand(t, value, type.dtype());
  const Tile put =
      t.kernel.type(given).is_scalar() ? t.tile(given) : expand(Tracer::arg(given, value.loc()), a);
  return where(is_it, put, Tracer::arg(v, x.loc()));
}

namespace {
/// Applies a pick to dimension `a` of `r`; returns the number of dimensions that it leaves.
int take(Tile& r, const Pick& pick, int a) {
  const Arg tile = Arg(r, std::source_location::current()).at(pick.loc());
  switch (pick.kind()) {
    case Pick::Kind::New:
      r = expand(tile, a);
      return 1;
    case Pick::Kind::Part:
      r = slice(tile, a, pick.part().first, pick.part().extent);
      return 1;
    case Pick::Kind::Element:
      r = extract(tile, a, pick.element());
      return 0;
    case Pick::Kind::All:
      break;
  }
  return 1;
}
}  // namespace

Tile detail::picked(const Tile& tile, std::span<const Pick> picks) {
  const Loc loc = picks.front().loc();
  Tracer& t = Tracer::at(loc, "a subscript of a tile");
  const ir::Value v = t.value(tile);
  const auto taken =
      std::ranges::count_if(picks, [](const Pick& p) { return p.kind() != Pick::Kind::New; });
  const std::int64_t rank = t.kernel.type(v).is_tile() ? t.kernel.type(v).rank() : 0;
  if (taken != rank) fail(ErrorId::pick_count, loc, {t.origin(v, "the tile")}, taken, rank);
  Tile r = tile;
  int a = 0;
  for (const Pick& pick : picks) a += take(r, pick, a);
  return r;
}

Tile Tile::operator()(const Pick& a) const { return detail::picked(*this, std::array{a}); }
Tile Tile::operator()(const Pick& a, const Pick& b) const {
  return detail::picked(*this, std::array{a, b});
}
Tile Tile::operator()(const Pick& a, const Pick& b, const Pick& c) const {
  return detail::picked(*this, std::array{a, b, c});
}
Tile Tile::operator()(const Pick& a, const Pick& b, const Pick& c, const Pick& d) const {
  return detail::picked(*this, std::array{a, b, c, d});
}
Tile Tile::operator()(const Pick& a, const Pick& b, const Pick& c, const Pick& d,
                      const Pick& e) const {
  return detail::picked(*this, std::array{a, b, c, d, e});
}
Tile Tile::operator()(const Pick& a, const Pick& b, const Pick& c, const Pick& d, const Pick& e,
                      const Pick& f) const {
  return detail::picked(*this, std::array{a, b, c, d, e, f});
}

// ---- together -----------------------------------------------------------------------------------
Tile cat(std::initializer_list<Tile> tiles, Axis axis, std::source_location at) {
  Tracer& t = Tracer::at(Loc(at), "cat");
  if (tiles.size() == 0) fail(ErrorId::empty_cat, Loc(at), {});
  std::vector<Arg> args;
  for (const Tile& tile : tiles) args.emplace_back(tile, at);
  std::vector<ir::Value> parts;
  for (const Arg& arg : args) parts.push_back(t.value(arg));
  const bool are_pointers = t.kernel.type(parts[0]).is_pointer();
  if (!are_pointers) {
    const DType d = dsl::promote_types(t, "cat", args);
    for (ir::Value& part : parts) part = dsl::convert(t, part, d);
  }
  const ir::Type first = t.kernel.type(parts[0]);
  const int a = dsl::checked_axis("cat", first, axis.value(), Loc(at));
  for (const ir::Value part : parts) {
    const ir::Type type = t.kernel.type(part);
    bool fits = type.elem() == first.elem() && type.is_tile() && type.rank() == first.rank();
    for (std::size_t d = 0; fits && d < first.shape().size(); ++d)
      fits = static_cast<int>(d) == a || type.shape()[d] == first.shape()[d];
    if (!fits)
      fail(ErrorId::cat_shapes, Loc(at),
           {t.origin(parts[0], "the first"), t.origin(part, "another")}, t.type_text(parts[0]),
           t.type_text(part), a);
  }
  return concatenated(t, parts, a);
}

namespace {
/// Converts two operands to one type and shape, adds a dimension at `a` to each, and concatenates
/// them along it.
Tile joined(Tracer& t, std::string_view what, const Arg& x, const Arg& y,
            const std::function<int(ir::Type)>& place) {
  const std::array args{x, y};
  const DType d = dsl::promote_types(t, what, args);
  std::array values{dsl::operand(t, x, d), dsl::operand(t, y, d)};
  if (!t.kernel.type(values[0]).is_scalar() || !t.kernel.type(values[1]).is_scalar()) {
    for (ir::Value& v : values)
      if (t.kernel.type(v).is_scalar()) v = dsl::broadcast_to(t, v, {1});
    dsl::broadcast_shapes(t, what, values, x.loc());
  }
  const int a = place(t.kernel.type(values[0]));
  for (ir::Value& v : values) v = t.value(expand(Tracer::arg(v, x.loc()), a));
  return concatenated(t, values, a);
}
}  // namespace

Tile join(const Arg& x, const Arg& y) {
  Tracer& t = Tracer::at(x.loc(), "join");
  const Tracer::Pin pin(t, x.loc());
  return joined(t, "join", x, y,
                [](ir::Type type) { return type.is_scalar() ? 0 : static_cast<int>(type.rank()); });
}

std::pair<Tile, Tile> split(const Arg& x) {
  Tracer& t = Tracer::at(x.loc(), "split");
  const ir::Value v = dsl::operand(t, x);
  const int a = dsl::checked_axis("split", t.kernel.type(v), -1, x.loc());
  if (t.kernel.type(v).shape().back() != 2)
    fail(ErrorId::split_extent, x.loc(), {t.origin(v, "the tile")},
         t.kernel.type(v).shape().back());
  const auto half = [&](int i) { return without(t, sliced(t, v, a, i, 1), a); };
  Tile first = half(0);
  return {first, half(1)};
}

Tile interleave(const Arg& x, const Arg& y, Axis axis) {
  Tracer& t = Tracer::at(x.loc(), "interleave");
  const Tracer::Pin pin(t, x.loc());
  const Tile both = joined(t, "interleave", x, y, [&](ir::Type type) {
    return dsl::checked_axis("interleave", type, axis.value(), x.loc()) + 1;
  });
  ir::Ints shape = shape_of(t, t.value(both));
  const auto a = static_cast<std::size_t>(axis.value() < 0 ? axis.value() + std::ssize(shape) - 1
                                                           : axis.value());
  shape[a] *= 2;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(a) + 1);
  return reshaped(t, t.value(both), shape);
}

Tile pad(const Arg& x, Axis axis, int before, int after, const Arg& value) {
  Tracer& t = Tracer::at(x.loc(), "pad");
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  const int a = dsl::checked_axis("pad", type, axis.value(), x.loc());
  if (before < 0 || after < 0) fail(ErrorId::bad_padding, x.loc(), {}, before, after);
  const ir::Value filling = dsl::operand(t, value, type.dtype());
  if (!t.kernel.type(filling).is_scalar())
    fail(ErrorId::scalar_required, value.loc(), {t.origin(filling, "the value")}, "pad",
         t.type_text(filling));
  const auto filled = [&](std::int64_t extent) {
    ir::Ints shape = shape_of(t, v);
    shape[static_cast<std::size_t>(a)] = extent;
    return dsl::broadcast_to(t, filling, shape);
  };
  std::vector<ir::Value> parts;
  if (before > 0) parts.push_back(filled(before));
  parts.push_back(v);
  if (after > 0) parts.push_back(filled(after));
  return concatenated(t, parts, a);
}

// ---- other orders -------------------------------------------------------------------------------
Tile flip(const Arg& x, Axis axis) {
  Tracer& t = Tracer::at(x.loc(), "flip");
  const Tracer::Pin pin(t, x.loc());
  const ir::Value v = dsl::operand(t, x);
  const ir::Ints shape = shape_of(t, v);
  const int a = dsl::checked_axis("flip", t.kernel.type(v), axis.value(), x.loc());
  const std::int64_t extent = shape[static_cast<std::size_t>(a)];
  if (extent == 1) return t.tile(v);
  ir::Ints line(shape.size(), 1);
  line[static_cast<std::size_t>(a)] = extent;
  const ir::Value last = t.build.i32(extent - 1);
  const ir::Value numbers = t.value(arange(extent));
  const Tile reversed = reshaped(t, t.build.sub(last, numbers), line);
  return gathered(t, v, dsl::broadcast_to(t, t.value(reversed), shape), a);
}

Tile squeeze(const Arg& x, Axis axis) {
  Tracer& t = Tracer::at(x.loc(), "squeeze");
  const ir::Value v = dsl::operand(t, x);
  const int a = dsl::checked_axis("squeeze", t.kernel.type(v), axis.value(), x.loc());
  const std::int64_t extent = t.kernel.type(v).shape()[static_cast<std::size_t>(a)];
  if (extent != 1) fail(ErrorId::bad_squeeze, x.loc(), {t.origin(v, "the tile")}, a, extent);
  return without(t, v, a);
}

Tile ravel(const Arg& x) {
  Tracer& t = Tracer::at(x.loc(), "ravel");
  const ir::Value v = dsl::operand(t, x);
  if (t.kernel.type(v).is_scalar()) return t.tile(dsl::broadcast_to(t, v, {1}));
  return reshaped(t, v, {t.kernel.type(v).count()});
}

// ---- by an index --------------------------------------------------------------------------------
Tile gather(const Arg& x, const Arg& index, Axis axis) {
  Tracer& t = Tracer::at(x.loc(), "gather");
  ir::Value v = dsl::operand(t, x), at = checked_index(t, "gather", index);
  const int a = dsl::checked_axis("gather", t.kernel.type(v), axis.value(), x.loc());
  meet(t, "gather", v, at, a, /*keeps_first=*/false, x.loc());
  return gathered(t, v, at, a);
}

Tile scatter(const Arg& x, const Arg& index, const Arg& values, Axis axis, Combine combine) {
  Tracer& t = Tracer::at(x.loc(), "scatter");
  ir::Value into = dsl::operand(t, x), at = checked_index(t, "scatter", index);
  const ir::Type type = t.kernel.type(into);
  const int a = dsl::checked_axis("scatter", type, axis.value(), x.loc());
  if (combine != Combine::store && !is_integer(type.dtype()))
    fail(ErrorId::scatter_floats, x.loc(), {t.origin(into, "the tile")}, name(type.dtype()));
  meet(t, "scatter", into, at, a, /*keeps_first=*/true, x.loc());
  std::array pair{at, dsl::operand(t, values, type.dtype())};
  if (t.kernel.type(pair[1]).is_scalar()) pair[1] = dsl::broadcast_to(t, pair[1], shape_of(t, at));
  dsl::broadcast_shapes(t, "scatter", pair, values.loc());
  if (shape_of(t, pair[0]) != shape_of(t, at)) meet(t, "scatter", into, pair[0], a, true, x.loc());
  return t.tile(t.build.op(Opcode::Scatter, {into, pair[0], pair[1]},
                           {{AttrName::axis, a}, {AttrName::kind, name_of(combine)}}));
}

// ---- folds that keep their dimension ------------------------------------------------------------
namespace {
Tile kept(const Arg& x, Axis axis, const Tile& folded) {
  return expand(Arg(folded, std::source_location::current()).at(x.loc()), axis.value());
}
}  // namespace

Tile sum(const Arg& x, Axis axis, KeepDims) { return kept(x, axis, sum(x, axis)); }
Tile prod(const Arg& x, Axis axis, KeepDims) { return kept(x, axis, prod(x, axis)); }
Tile max(const Arg& x, Axis axis, KeepDims) { return kept(x, axis, max(x, axis)); }
Tile min(const Arg& x, Axis axis, KeepDims) { return kept(x, axis, min(x, axis)); }
Tile any(const Arg& x, Axis axis, KeepDims) { return kept(x, axis, any(x, axis)); }
Tile All::operator()(const Arg& x, int axis, KeepDims) const { return kept(x, axis, all(x, axis)); }
Tile argmax(const Arg& x, Axis axis, KeepDims) { return kept(x, axis, argmax(x, axis)); }
Tile argmin(const Arg& x, Axis axis, KeepDims) { return kept(x, axis, argmin(x, axis)); }

}  // namespace tegula
