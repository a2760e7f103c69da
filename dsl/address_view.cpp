// Views of memory at an address. Their parts are boxes of a make_view, like those of a parameter's
// view; parts selected by index tiles are pointer tiles with masks.
#include "tegula/address_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "dsl/elementwise.h"
#include "dsl/memory_attrs.h"
#include "dsl/view_access.h"
#include "ir/analysis/index_facts.h"
#include "ir/made_view.h"
#include "tegula/math.h"
#include "tegula/memory.h"
#include "tegula/tile_ops.h"

namespace tegula {

Tile as_pointer(const Arg& address, DType pointee) {
  Tracer& t = Tracer::at(address.loc(), "as_pointer");
  const ir::Value v = dsl::operand(t, address);
  const ir::Type type = t.kernel.type(v);
  if (type.is_pointer() || !is_integer(type.dtype()) || size_bits(type.dtype()) != 64)
    fail(ErrorId::address_type, address.loc(), {t.origin(v, "the address")}, "as_pointer",
         type.str());
  return t.tile(t.build.op(Opcode::Bitcast, {v}, type.with_elem({pointee, true})));
}

namespace detail {
namespace {

bool is_index_tile(Tracer& t, const Subscript& s) {
  return s.drops_dimension() && !s.first().is_literal() && t.type(s.first()).is_tile();
}

/// The dimension of the part along which a subscript runs; -1 for a scalar. All index tiles use the
/// dimension of the first one.
struct PartShape {
  PartShape(Tracer& t, std::span<const Subscript> subscripts) {
    int tiles = -1;
    for (const Subscript& s : subscripts) {
      if (s.is_all()) fail(ErrorId::address_type, s.loc(), {}, "all", "without a known extent");
      const bool is_tile = is_index_tile(t, s);
      has_index_tiles |= is_tile;
      if (is_tile && tiles >= 0) {
        along.push_back(tiles);
      } else if (is_tile || !s.drops_dimension()) {
        along.push_back(static_cast<int>(shape.size()));
        shape.push_back(is_tile ? t.type(s.first()).shape()[0] : s.block());
        if (is_tile) tiles = along.back();
      } else {
        along.push_back(-1);
      }
    }
  }
  std::vector<int> along;
  std::vector<std::int64_t> shape;
  bool has_index_tiles = false;
};

/// Returns indices along one dimension of the tensor, as i64, which run along a dimension of the
/// part.
Tile indices_of(Tracer& t, const Subscript& s, int along, int rank) {
  const Tile first = cast<i64>(s.first());
  if (along < 0) return first;
  Tile all = is_index_tile(t, s) ? first : first + cast<i64>(arange(s.block()));
  for (int d = 0; d < rank; ++d)
    if (d != along) all = all.expand(d);
  return all;
}

/// Returns the elements of a piece of `bytes`, a power of two from the element size to 16.
std::int64_t elements_of_piece(DType pointee, int bytes, Loc at) {
  const auto size = static_cast<int>(size_bytes(pointee));
  if (bytes == 0) return 1;
  if (bytes < size || bytes > 16 || !std::has_single_bit(static_cast<unsigned>(bytes)))
    fail(ErrorId::address_alignment, at, {}, "view", bytes, name(pointee));
  return bytes / size;
}

/// Returns the greatest common divisor of `elements` and the known divisor of an integer.
std::int64_t common_divisor(Tracer& t, std::int64_t elements, const Arg& x) {
  return std::gcd(elements, ir::divisor_of(t.kernel, dsl::operand(t, x)));
}

ElementRun run_of(Tracer& t, const AddressedTensor& tensor, std::span<const Subscript> subscripts,
                  const PartShape& p) {
  const ir::Type view = t.kernel.type(ir::Value(tensor.view));
  const ir::ViewFacts& facts = view.view_facts();
  const std::int64_t piece = facts.align / static_cast<std::int64_t>(size_bytes(view.dtype()));
  ElementRun run;
  if (std::ranges::count(facts.strides, 1) > 1) return run;  // lines are one element apart
  for (std::size_t d = 0; d < subscripts.size() && piece > 1; ++d) {
    const Subscript& s = subscripts[d];
    if (facts.strides[d] != 1 || p.along[d] < 0 || is_index_tile(t, s)) continue;
    const std::int64_t extent = view.shape()[d];
    run.axis = p.along[d];
    run.elements = common_divisor(t, std::gcd(piece, s.block()), s.first());
    run.is_whole = (extent != ir::kDynamic ? extent : facts.dim_div[d]) % run.elements == 0 &&
                   (!s.end().present() || common_divisor(t, run.elements, s.end()) == run.elements);
  }
  return run;
}

/// Returns the alignment that an access through the part's pointers may rely on.
ir::AttrList attrs_of_run(const ElementRun& run, DType pointee) {
  ir::AttrList attrs;
  if (run.elements <= 1) return attrs;
  attrs.set(AttrName::align, run.elements * static_cast<std::int64_t>(size_bytes(pointee)));
  attrs.set(AttrName::axis, std::int64_t{run.axis});
  if (run.is_whole) attrs.set(AttrName::width, run.elements);
  return attrs;
}

ir::BoxAccess box_access(Tracer& t, const AddressedPart& part, ir::Value stored = {}) {
  std::vector<ir::Value> offsets;
  for (const Arg& first : part.firsts) offsets.push_back(t.value(first));
  return ir::box_of(t.value(part.view), offsets, part.axes, stored);
}

/// Crops the elements at or beyond the ends of the subscripts.
Tile cropped(const AddressedPart& part, Tile all) {
  for (std::size_t i = 0; i < part.axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(part.axes[i]);
    if (part.ends[d].present()) all = crop(all, static_cast<int>(i), part.firsts[d], part.ends[d]);
  }
  return all;
}

ir::Type part_type(const AddressedPart& part, DType dtype) {
  return part.shape.empty() ? ir::Type::scalar(dtype) : ir::Type::tile({dtype, false}, part.shape);
}

/// Computes the addresses of the part's elements, and which of them are inside.
void find_addresses(Tracer& t, const AddressedTensor& tensor, std::span<const Subscript> subscripts,
                    const PartShape& p, AddressedPart& part) {
  const int rank = static_cast<int>(p.shape.size());
  Tile offset, inside;
  for (std::size_t d = 0; d < subscripts.size(); ++d) {
    const Subscript& s = subscripts[d];
    const Tile index = indices_of(t, s, p.along[d], rank);
    const Tile step = index * cast<i64>(tensor.strides[d]);
    Tile within = (index >= 0) & (index < cast<i64>(tensor.extents[d]));
    if (s.end().present()) within = within & (index < cast<i64>(s.end()));
    offset = d == 0 ? step : offset + step;
    inside = d == 0 ? within : inside & within;
  }
  part.pointers = Arg(tensor.pointer + offset).at(part.loc);
  part.inside = Arg(inside).at(part.loc);
}

/// Extents and strides are scalar integers.
void require_integer(Tracer& t, const Arg& x) {
  const ir::Type type = t.kernel.type(dsl::operand(t, x));
  if (!type.is_scalar() || type.is_pointer() || !is_integer(type.dtype()))
    fail(ErrorId::integers_only, x.loc(), {}, "view", type.str());
}

/// Rejects a view that was made in a loop or branch that has ended.
void require_open(Tracer& t, ir::Value view, Loc at) {
  const ir::OpId make = t.kernel[view].def;
  for (ir::RegionId r = t.build.region(); r != t.kernel[make].parent;) {
    const ir::OpId owner = t.kernel[r].owner;
    if (!owner)
      fail(ErrorId::undefined_after, at, {{t.kernel[make].loc, "it was made here"}},
           "a loop or branch");
    r = t.kernel[owner].parent;
  }
}

}  // namespace

AddressedTensor::AddressedTensor(const Arg& pointer, DType pointee, std::span<const Arg> extents,
                                 std::span<const Arg> strides, int alignment)
    : pointer(pointer),
      extents(extents.begin(), extents.end()),
      strides(strides.begin(), strides.end()),
      alignment(alignment) {
  Tracer& t = Tracer::at(pointer.loc(), "a view");
  const Tracer::Pin pin(t, pointer.loc());
  std::vector<ir::Value> operands{dsl::pointers_of(t, "view", pointer)};
  const ir::Type type = t.kernel.type(operands[0]);
  if (!type.is_scalar() || type.dtype() != pointee)
    fail(ErrorId::pointer_required, pointer.loc(), {t.origin(operands[0], "the address")},
         fmt::format("view of {}", name(pointee)), type.str());
  for (const std::span<const Arg> numbers : {extents, strides})
    for (const Arg& x : numbers) require_integer(t, x);
  elements_of_piece(type.dtype(), alignment, pointer.loc());
  for (const Arg& extent : extents) operands.push_back(t.value(max(cast<i64>(extent), 0)));
  for (const Arg& stride : strides) operands.push_back(t.value(cast<i64>(stride)));
  ir::AttrList attrs;
  if (alignment != 0) attrs.set(AttrName::align, std::int64_t{alignment});
  const ir::Type made = ir::made_view_type(t.kernel, operands, alignment);
  const ir::OpId op =
      t.build.create(Opcode::MakeView, operands, std::span(&made, 1), std::move(attrs));
  view = t.kernel[op].results[0].index;
}

Tile AddressedTensor::dim(int axis, Loc at) const {
  Tracer& t = Tracer::at(at, "a view");
  const Tracer::Pin pin(t, at);
  const int rank = static_cast<int>(extents.size());
  t.value(pointer);  // rejects a view of another trace
  if (axis < -rank || axis >= rank) fail(ErrorId::bad_dim, at, {}, axis, rank);
  return cast<i64>(extents[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)]);
}

AddressedPart AddressedTensor::part(std::span<const Subscript> subscripts, Loc at) const {
  Tracer& t = Tracer::at(at, "a view");
  const Tracer::Pin pin(t, at);
  t.value(pointer);  // rejects a value of another trace
  require_open(t, ir::Value(view), at);
  const PartShape p(t, subscripts);
  AddressedPart part;
  part.view = Tracer::arg(ir::Value(view), at);
  part.shape = p.shape;
  part.loc = at;
  for (std::size_t d = 0; d < subscripts.size(); ++d)
    if (p.along[d] >= 0) part.axes.push_back(static_cast<std::int64_t>(d));
  part.is_box = !p.has_index_tiles;
  if (!part.is_box) {
    part.run = run_of(t, *this, subscripts, p);
    find_addresses(t, *this, subscripts, p, part);
    return part;
  }
  for (const Subscript& s : subscripts) {
    part.firsts.push_back(Arg(cast<i64>(s.first())).at(at));
    part.ends.push_back(s.end().present() ? Arg(cast<i64>(s.end())).at(at) : Arg());
  }
  return part;
}

Tile AddressedTensor::read(const AddressedPart& part, std::span<const Subscript> subscripts) const {
  Tracer& t = Tracer::at(part.loc, "a view");
  const Tracer::Pin pin(t, part.loc);
  const DType pointee = t.kernel.type(ir::Value(view)).dtype();
  if (part.is_box) {
    const ir::OpId load = ir::create_access(t.build, Opcode::LoadView, box_access(t, part), {},
                                            part_type(part, pointee));
    return cropped(part, t.tile(t.kernel[load].results[0]));
  }
  const std::array operands{t.value(part.pointers), dsl::truth(t, part.inside),
                            dsl::operand(t, Arg(0).at(part.loc), pointee)};
  const ir::OpId op = t.build.create(Opcode::Load, operands, attrs_of_run(part.run, pointee));
  Tile all = t.tile(t.kernel[op].results[0]);
  const PartShape p(t, subscripts);
  for (std::size_t d = 0; d < subscripts.size(); ++d) {
    const Subscript& s = subscripts[d];
    if (p.along[d] < 0 || is_index_tile(t, s)) continue;
    Tile end = cast<i64>(extents[d]);
    if (s.end().present()) end = min(end, cast<i64>(s.end()));
    all = crop(all, p.along[d], cast<i64>(s.first()), end);
  }
  return all;
}

void store_part(const AddressedPart& part, const Arg& value) {
  Tracer& t = Tracer::at(value.loc(), "a store");
  t.build.loc = part.loc;
  const Tracer::Pin pin(t, part.loc);
  require_open(t, t.value(part.view), part.loc);
  const DType pointee = t.type(part.view).dtype();
  const ir::Value stored = dsl::stored_value(t, value, part_type(part, pointee), part.loc);
  if (part.is_box) {
    const Tile kept = cropped(part, t.tile(stored));
    ir::create_access(t.build, Opcode::StoreView, box_access(t, part, t.value(kept)), {});
    return;
  }
  ElementRun run = part.run;
  run.is_whole = false;  // elements of the value may be absent
  const std::array operands{t.value(part.pointers), stored, dsl::truth(t, part.inside)};
  t.build.create(Opcode::Store, operands, std::span<const ir::Type>(), attrs_of_run(run, pointee));
}

}  // namespace detail
}  // namespace tegula
