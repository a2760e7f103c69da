// Views: subscripts become the offsets of a box or, for index tiles, the addresses of a gather.
#include "tegula/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "dsl/elementwise.h"
#include "dsl/hint_attrs.h"
#include "dsl/view_access.h"
#include "tegula/math.h"
#include "tegula/memory.h"
#include "tegula/tile_ops.h"

namespace tegula {

using dsl::ViewAccessRecord;

namespace {

/// Maximum number of elements of one dimension that are on chip at once.
constexpr std::int64_t kMaxWholeDimension = 32768;

/// Makes a new tile variable an operand at the user's location.
Arg here(const Tile& t, const Loc& at) { return Arg(t).at(at); }

}  // namespace

// ---- Index --------------------------------------------------------------------------------------
Index::Index(Tile first, std::int64_t block, const char* dimension)
    : first_(std::move(first)), block_(block), dimension_(dimension) {}

Tile Index::indices(std::source_location at) const {
  if (drops_dimension()) return first_;
  Tracer& t = Tracer::at(at, "an index");
  const Tracer::Pin pin(t, at);
  const ir::Value first = t.value(Arg(first_, at));
  const ir::Type lanes = ir::Type::tile({t.kernel.type(first).dtype(), false}, ir::Ints{block_});
  const ir::Value offsets = t.build.op(Opcode::Arange, {}, lanes, {{AttrName::start, 0}});
  const ir::Value all = t.build.add(offsets, first);
  t.indices.set(all, dsl::IndexTypes::Kind::Index);
  return end_ ? crop(t.tile(all), 0, first_, *end_) : t.tile(all);
}

Index Index::shifted(const Arg& by) const {
  Index moved(here(first_, by.loc()) + by, block_, dimension_);
  moved.keeps_ = keeps_;
  if (end_) moved.end_ = here(*end_, by.loc()) + by;
  return moved;
}
Index Index::slice(const Arg& offset, std::int64_t block) const {
  if (!dsl::is_block(block)) fail(ErrorId::bad_block, offset.loc(), {}, block);
  Index part(here(first_, offset.loc()) + offset, block, dimension_);
  part.end_ = end_;
  part.keeps_ = keeps_;
  return part;
}
Index Index::until(const Arg& end) const {
  Tracer& t = Tracer::at(end.loc(), "until");
  const Tracer::Pin pin(t, end.loc());
  const DType type = dsl::promote_types(t, "until", std::span(&end, 1));
  dsl::require_integers("until", type, end.loc());
  Index bounded = *this;
  bounded.end_ =
      t.tile(t.indices.restated(t.build, dsl::end_operand(t, end), dsl::IndexTypes::Kind::Index));
  // Keep an earlier end.
  if (end_) bounded.end_ = min(*end_, *bounded.end_);
  if (drops_dimension()) assume(first_ < *bounded.end_);
  return bounded;
}
Index keep(const Index& i) {
  Index kept = i;
  kept.keeps_ = true;
  return kept;
}
Index slice(const Arg& first, std::int64_t block) {
  if (!dsl::is_block(block)) fail(ErrorId::bad_block, first.loc(), {}, block);
  Tracer& t = Tracer::at(first.loc(), "slice");
  // Keep a wider integer: a view at an address may have elements there.
  if (dsl::is_wider_than_indices(t, first) && is_integer(t.type(first).dtype()))
    return Index(t.tile(t.value(first)), block);
  const ir::Value at = dsl::operand(t, first, t.index_type());
  return Index(t.tile(t.indices.restated(t.build, at, dsl::IndexTypes::Kind::Index)), block);
}

Arg::Arg(const Index& i, std::source_location at) : Arg(i.indices(at), at) {}

// ---- Subscript ----------------------------------------------------------------------------------
Subscript::Subscript(const Index& i, std::source_location at)
    : first_(i.first(), at),
      block_(i.block()),
      drops_(i.drops_dimension()),
      dimension_(i.dimension()),
      loc_(at) {
  if (i.end() && !drops_) end_ = Arg(*i.end(), at);
}
Subscript::Subscript(const All&, std::source_location at)
    : first_(0, at), whole_(true), drops_(false), loc_(at) {}
Subscript::Subscript(const Tile& t, std::source_location at) : first_(t, at), loc_(at) {}

// ---- naming a part of a view --------------------------------------------------------------------
namespace {

/// Returns true if the kernel requested exactly this extent of another dimension: `all` of K is
/// then combined with `all` of Q whose extent is fixed.
bool is_fixed_elsewhere(const Tracer& t, std::int64_t extent) {
  for (const dsl::ArgClass& a : t.signature.args)
    for (int i = 0; i < a.info.rank; ++i) {
      // An extent that merely fills its bucket was not requested.
      const dsl::DimClass& d = a.dims[static_cast<std::size_t>(i)];
      if (d.fixed == extent && d.bucket < 0) return true;
    }
  return false;
}

/// Returns the extent of `all`: the exact one if the kernel is compiled for it, else its bucket.
std::int64_t whole_extent(Tracer& t, std::uint32_t param, int axis, Loc loc) {
  const Dims& sample = t.arg_class(param).sample;
  const bool exact =
      !sample.empty() && is_fixed_elsewhere(t, sample[static_cast<std::size_t>(axis)]);
  const std::int64_t extent = t.specialise(param, axis, exact);
  if (extent > kMaxWholeDimension)
    fail(ErrorId::all_too_large, loc, {},
         sample.empty() ? extent : sample[static_cast<std::size_t>(axis)], axis, kMaxWholeDimension,
         axis);
  return extent;
}

bool selects_by_tile(Tracer& t, const Subscript& s) {
  return s.drops_dimension() && !s.first().is_literal() && t.type(s.first()).is_tile();
}

ir::Value offset_of(Tracer& t, std::uint32_t param, const Subscript& s) {
  if (!s.first().is_literal() && !is_integer(t.type(s.first()).dtype()))
    fail(ErrorId::tile_subscript, s.loc(), {t.origin(t.value(s.first()), "the subscript")},
         name(t.type(s.first()).dtype()), t.param_text(param));
  return dsl::index_operand(t, s.first());
}

/// Broadcasts the index tiles among the subscripts to one shape; scalars elsewhere stay scalars.
std::vector<ir::Value> index_tiles(Tracer& t, std::uint32_t param,
                                   std::span<const Subscript> subscripts, Loc at) {
  std::vector<ir::Value> tiles;
  for (const Subscript& s : subscripts)
    if (selects_by_tile(t, s)) tiles.push_back(offset_of(t, param, s));
  dsl::broadcast_shapes(t, "subscripts", tiles, at);
  return tiles;
}

/// Makes a box. Index tiles among the subscripts give its positions along the dimension of the
/// first of them. Tiles of several dimensions are flattened there, and the result has their shape.
ViewAccessRecord make_box_access(Tracer& t, std::uint32_t param,
                                 std::span<const Subscript> subscripts, Loc at) {
  ViewAccessRecord part{param, {}, {}, {}, false, at, false};
  ir::Ints shape, whole;
  std::vector<ir::Value> tiles = index_tiles(t, param, subscripts, at);
  ir::Ints places;
  ir::Type line;
  if (!tiles.empty()) {
    const ir::Type all = t.kernel.type(tiles[0]);
    places.assign(all.shape().begin(), all.shape().end());
    line = ir::Type::tile(all.elem(), ir::Ints{all.count()});
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < subscripts.size(); ++i) {
    const Subscript& s = subscripts[i];
    if (selects_by_tile(t, s)) {
      const ir::Value tile = tiles[next];
      part.offsets.push_back(places.size() == 1 ? tile : t.build.op(Opcode::Reshape, {tile}, line));
      if (next++ > 0) continue;
      shape.push_back(line.shape()[0]);
      whole.insert(whole.end(), places.begin(), places.end());
      part.ends.emplace_back();
    } else {
      part.offsets.push_back(offset_of(t, param, s));
      if (s.drops_dimension()) continue;
      shape.push_back(s.is_all() ? whole_extent(t, param, static_cast<int>(i), s.loc())
                                 : s.block());
      whole.push_back(shape.back());
      if (s.is_all() && t.arg_class(param).dims[i].fixed < 0)
        part.padded.push_back(static_cast<std::int64_t>(i));
      part.ends.push_back(s.end().present() ? dsl::end_operand(t, s.end()) : ir::Value());
    }
    part.axes.push_back(static_cast<std::int64_t>(i));
  }
  const ir::Elem elem{t.arg_class(param).info.dtype, false};
  part.type = shape.empty() ? ir::Type::of(elem) : ir::Type::tile(elem, shape);
  part.shape = whole.empty() ? part.type : ir::Type::tile(elem, whole);
  return part;
}

/// Accesses elements by their addresses: every subscript is an index tile or a scalar.
ViewAccessRecord make_gather_access(Tracer& t, std::uint32_t param,
                                    std::span<const Subscript> subscripts, Loc at) {
  ViewAccessRecord part{param, {}, {}, {}, true, at, false};
  for (const Subscript& s : subscripts) part.offsets.push_back(offset_of(t, param, s));
  dsl::broadcast_shapes(t, "subscripts", part.offsets, part.loc);
  part.type = ir::Type::scalar(t.arg_class(param).info.dtype);
  for (ir::Value v : part.offsets)
    if (t.kernel.type(v).is_tile()) part.type = t.kernel.type(v).with_dtype(part.type.dtype());
  part.shape = part.type;
  return part;
}

std::uint32_t make_access(Tracer& t, std::uint32_t param, Hints hints,
                          std::span<const Subscript> subscripts, Loc at) {
  const bool has_tiles = std::ranges::any_of(
                 subscripts, [&](const Subscript& s) { return selects_by_tile(t, s); }),
             has_boxes = std::ranges::any_of(
                 subscripts, [&](const Subscript& s) { return !s.drops_dimension(); });
  const bool gather = has_tiles && !has_boxes;
  t.accesses.push_back(gather ? make_gather_access(t, param, subscripts, at)
                              : make_box_access(t, param, subscripts, at));
  t.accesses.back().hints = hints;
  return static_cast<std::uint32_t>(t.accesses.size() - 1);
}

/// If the kernel writes the tensor and the part has an end along exactly one dimension, returns the
/// part with an index tile along it, whose positions after the end are -1: elements there must not
/// be read, because another program may write them meanwhile. Returns nothing for other parts and
/// for parts with index tiles; these are read as they are.
std::optional<ViewAccessRecord> by_places(Tracer& t, const ViewAccessRecord& part) {
  const bool has_one_end = std::ranges::count_if(part.ends, [](ir::Value e) { return !!e; }) == 1;
  if (t.arg_class(part.param).info.access == detail::ViewAccess::In || !has_one_end) return {};
  for (ir::Value offset : part.offsets)
    if (t.kernel.type(offset).is_tile()) return {};
  const auto dim = static_cast<std::size_t>(
      std::ranges::find_if(part.ends, [](ir::Value e) { return !!e; }) - part.ends.begin());
  const auto axis = static_cast<std::size_t>(part.axes[dim]);
  const ir::Elem index{t.kernel.type(part.offsets[axis]).dtype(), false};
  const ir::Type line = ir::Type::tile(index, ir::Ints{part.type.shape()[dim]});
  const ir::Value at =
      t.build.add(t.build.op(Opcode::Arange, {}, line, {{AttrName::start, 0}}), part.offsets[axis]);
  const ir::Value nowhere = t.build.constant(ir::Type::of(index), std::int64_t{-1});
  ViewAccessRecord places = part;
  places.offsets[axis] = t.build.select(t.build.cmp("lt", at, part.ends[dim]), at, nowhere);
  places.gather = part.axes.size() == 1;
  if (places.gather) dsl::broadcast_shapes(t, "subscripts", places.offsets, part.loc);
  return places;
}

/// Records the read and stores its op in `whole`.
ir::Value read_part(Tracer& t, ViewAccessRecord& whole) {
  const std::optional<ViewAccessRecord> places = by_places(t, whole);
  const ViewAccessRecord& part = places ? *places : whole;
  if (part.gather) {
    const ir::ViewAddresses a = dsl::addresses(t, part);
    const ir::Type scalar = ir::Type::scalar(part.type.dtype());
    const ir::Value zero = t.build.zero(scalar);
    const ir::OpId load = t.build.create(Opcode::Load, std::array{a.pointers, a.inside, zero},
                                         dsl::attrs_of(part.hints));
    whole.load = load;
    return dsl::cropped(t, whole, t.kernel[load].results[0]);
  }
  const ir::OpId load = ir::create_access(t.build, Opcode::LoadView, dsl::box_access(t, part),
                                          dsl::attrs_of(part.hints), part.type);
  whole.load = load;
  if (!part.padded.empty()) t.padded[t.kernel[load].results[0]] = part.padded;
  return dsl::shaped(t, dsl::cropped(t, whole, t.kernel[load].results[0]), part.shape);
}

void write_part(Tracer& t, const ViewAccessRecord& part, const Arg& value) {
  ir::Value v = dsl::stored_value(t, value, part.shape, part.loc);
  if (part.gather) {
    const ir::ViewAddresses a = dsl::addresses(t, part);
    t.build.create(Opcode::Store, std::array{a.pointers, v, a.inside}, dsl::attrs_of(part.hints));
    return;
  }
  v = dsl::cropped(t, part, dsl::shaped(t, v, part.type));
  ir::create_access(t.build, Opcode::StoreView, dsl::box_access(t, part, v),
                    dsl::attrs_of(part.hints));
}

}  // namespace

ir::Value dsl::shaped(Tracer& t, ir::Value v, ir::Type type) {
  return t.kernel.type(v) == type ? v : t.build.op(Opcode::Reshape, {v}, type);
}

ir::Value dsl::cropped(Tracer& t, const ViewAccessRecord& part, ir::Value v) {
  for (std::size_t i = 0; i < part.ends.size(); ++i)
    if (part.ends[i])
      v = t.build.op(Opcode::Crop,
                     {v, part.offsets[static_cast<std::size_t>(part.axes[i])], part.ends[i]},
                     part.type, {{AttrName::axis, static_cast<std::int64_t>(i)}});
  return v;
}

ir::BoxAccess dsl::box_access(Tracer& t, const ViewAccessRecord& part, ir::Value stored) {
  return ir::box_of(t.param(part.param), part.offsets, part.axes, stored);
}

ir::ViewAddresses dsl::addresses(Tracer& t, const ViewAccessRecord& part) {
  return ir::view_addresses(t.build, t.param(part.param), ir::Type::scalar(t.index_type()),
                            [&](int axis) { return part.offsets[static_cast<std::size_t>(axis)]; });
}

ir::Value dsl::stored_value(Tracer& t, const Arg& value, ir::Type target, Loc loc) {
  if (t.grid_done) fail(ErrorId::after_grid, loc, {{t.grid_loc, "the grid loop"}});
  const DType to = target.dtype();
  if (!value.is_literal()) {
    const ir::Type from = t.type(value);
    if (from.is_pointer())
      fail(ErrorId::pointer_operand, loc, {t.origin(t.value(value), "the value")}, "store");
    if (is_float(from.dtype()) && !is_float(to))
      fail(ErrorId::store_type, loc, {t.origin(t.value(value), "the value")}, name(from.dtype()),
           name(to));
    if (!can_broadcast(from.shape(), target.shape()))
      fail(ErrorId::store_shape, loc, {t.origin(t.value(value), "the value")},
           extents_text(from.shape()), extents_text(target.shape()));
  }
  const ir::Value v = operand(t, value.at(loc), to);
  return broadcast_to(t, v, {target.shape().begin(), target.shape().end()});
}

namespace {

/// Returns "A[C.M, A.K]": the view, and the dimensions its indices run over.
std::string description(const Tracer& t, std::uint32_t param,
                        std::span<const Subscript> subscripts) {
  std::string out = t.kernel.params()[param].name + "[";
  for (std::size_t i = 0; i < subscripts.size(); ++i) {
    const Subscript& s = subscripts[i];
    if (i > 0) out += ", ";
    if (s.is_all())
      out += "all";
    else if (*s.dimension())
      out += s.dimension();
    else if (s.first().is_literal())
      out += fmt::format("{}", s.first().as_int());
    else
      out += "...";
  }
  return out + "]";
}

ir::Value read_described(Tracer& t, std::uint32_t param, ViewAccessRecord& part,
                         std::span<const Subscript> subscripts) {
  const ir::Value v = read_part(t, part);
  t.read_from[v] = description(t, param, subscripts);
  for (std::int64_t axis : part.axes)
    t.indexed_by[v].push_back(dsl::stated(t.kernel, part.offsets[static_cast<std::size_t>(axis)]));
  return v;
}

}  // namespace

Tile View::read(std::span<const Subscript> subscripts, Loc at) const {
  Tracer& t = Tracer::at(at, "a view");
  const std::uint32_t param = t.position(param_);
  const std::uint32_t part = make_access(t, param, hints_, subscripts, at);
  return t.tile(read_described(t, param, t.accesses[part], subscripts));
}

ViewTile View::access(std::span<const Subscript> subscripts, Loc at) const {
  Tracer& t = Tracer::at(at, "a view");
  const std::uint32_t param = t.position(param_);
  const std::uint32_t part = make_access(t, param, hints_, subscripts, at);
  return ViewTile(t.tile(read_described(t, param, t.accesses[part], subscripts)), part);
}

Tile View::dim(int axis, std::source_location at) const {
  Tracer& t = Tracer::at(at, "a view");
  if (axis < -rank_ || axis >= rank_) fail(ErrorId::bad_dim, at, {}, axis, rank_);
  const int a = axis < 0 ? axis + rank_ : axis;
  const ir::Type type = ir::Type::scalar(t.index_type());
  const std::uint32_t param = t.position(param_);
  const std::int64_t fixed = t.arg_class(param).dims[static_cast<std::size_t>(a)].fixed;
  if (fixed >= 0) {
    const ir::Value extent = t.build.constant(type, fixed);
    t.indices.set(extent, dsl::IndexTypes::Kind::Index);
    return t.tile(extent);
  }
  return t.tile(t.build.op(Opcode::ViewDim, {t.param(param)}, type, {{AttrName::axis, a}}));
}

Tile View::stride(int axis, std::source_location at) const {
  Tracer& t = Tracer::at(at, "a view");
  if (axis < -rank_ || axis >= rank_) fail(ErrorId::bad_dim, at, {}, axis, rank_);
  const int a = axis < 0 ? axis + rank_ : axis;
  return t.tile(t.build.op(Opcode::ViewStride, {t.param(t.position(param_))},
                           ir::Type::scalar(t.index_type()), {{AttrName::axis, a}}));
}

int View::static_dim(int axis, std::source_location at) const {
  Tracer& t = Tracer::at(at, "a view");
  if (axis < -rank_ || axis >= rank_) fail(ErrorId::bad_dim, at, {}, axis, rank_);
  return static_cast<int>(t.specialise(t.position(param_), axis < 0 ? axis + rank_ : axis, true));
}

void View::do_not_specialize(int axis, std::source_location at) const {
  Tracer& t = Tracer::at(at, "a view");
  if (axis < -rank_ || axis >= rank_) fail(ErrorId::bad_dim, at, {}, axis, rank_);
  t.generalise(t.position(param_), axis < 0 ? axis + rank_ : axis, dsl::ExtentKey::Any);
}

void View::do_not_specialize_stride(int axis, std::source_location at) const {
  Tracer& t = Tracer::at(at, "a view");
  if (axis < -rank_ || axis >= rank_) fail(ErrorId::bad_dim, at, {}, axis, rank_);
  t.generalise(t.position(param_), axis < 0 ? axis + rank_ : axis, dsl::ExtentKey::AnyStride);
}

void View::set_partial(std::source_location at) const {
  Tracer& t = Tracer::at(at, "a view");
  t.kernel.params()[t.position(param_)].attrs.set(AttrName::partial, std::int64_t{1});
}

// ---- ViewTile -----------------------------------------------------------------------------------
void ViewTile::operator=(const Arg& value) && {
  // Use the target's own location: that of the value may be inside a header.
  Tracer& t = Tracer::at(value.loc(), "a store");
  const ViewAccessRecord& part = t.access(*this);
  t.build.loc = part.loc;
  write_part(t, part, value);
}

namespace {
Tile combined(const Tile& old, const Arg& value, Tile (*op)(const Arg&, const Arg&)) {
  return op(Arg(old).at(value.loc()), value);
}
}  // namespace
void ViewTile::operator+=(const Arg& value) && {
  std::move(*this) =
      Arg(combined(*this, value, [](const Arg& a, const Arg& b) { return a + b; })).at(value.loc());
}
void ViewTile::operator-=(const Arg& value) && {
  std::move(*this) =
      Arg(combined(*this, value, [](const Arg& a, const Arg& b) { return a - b; })).at(value.loc());
}
void ViewTile::operator*=(const Arg& value) && {
  std::move(*this) =
      Arg(combined(*this, value, [](const Arg& a, const Arg& b) { return a * b; })).at(value.loc());
}

ViewTile& ViewTile::operator=(const Arg& value) & {
  Tracer& t = Tracer::at(value.loc(), "an assignment");
  t.access(*this).rebound = true;
  static_cast<Tile&>(*this) = t.tile(dsl::operand(t, value));
  return *this;
}
ViewTile& ViewTile::operator=(const ViewTile& value) & {
  if (Tracer* t = Tracer::current(); t && access_ < t->accesses.size())
    t->accesses[access_].rebound = true;
  static_cast<Tile&>(*this) = static_cast<const Tile&>(value);
  return *this;
}

// ---- parameters ---------------------------------------------------------------------------------
Tile detail::parameter_value(const Parameter& param, Loc at) {
  Tracer& t = Tracer::at(at, "a parameter");
  return t.tile(t.param(t.position(param)));
}
Tile detail::captured_scalar(const std::shared_ptr<ScalarCell>& cell, Loc at) {
  Tracer& t = Tracer::at(at, "a Scalar");
  return t.tile(t.param(t.param_of_capture(cell)));
}
std::uint32_t detail::captured_tensor(const Tensor& tensor, DType dtype, int rank, Loc at,
                                      bool is_written) {
  const ViewAccess access = is_written ? ViewAccess::InOut : ViewAccess::In;
  return Tracer::at(at, "view").param_of_capture(tensor, dtype, rank, at, access);
}

}  // namespace tegula
