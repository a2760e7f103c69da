// Views of memory at an address: parts of them are pointer tiles with masks.
#include "tegula/address_view.h"

#include <algorithm>

#include "dsl/elementwise.h"
#include "dsl/memory_attrs.h"
#include "dsl/view_access.h"
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
  return s.block() == 1 && !s.first().is_literal() && t.type(s.first()).is_tile();
}

/// The dimension of the part along which a subscript runs; -1 for a scalar. Index tiles meet where
/// the first of them stands.
struct PartShape {
  PartShape(Tracer& t, std::span<const Subscript> subscripts) {
    int tiles = -1;
    for (const Subscript& s : subscripts) {
      if (s.is_all()) fail(ErrorId::address_type, s.loc(), {}, "all", "of no known extent");
      const bool is_tile = is_index_tile(t, s);
      if (is_tile && tiles >= 0) {
        along.push_back(tiles);
      } else if (is_tile || s.block() > 1) {
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
};

/// Indices along one dimension of the tensor, as i64, which stand along one of the part.
Tile indices_of(Tracer& t, const Subscript& s, int along, int rank) {
  const Tile first = cast<i64>(s.first());
  if (along < 0) return first;
  Tile all = is_index_tile(t, s) ? first : first + cast<i64>(arange(s.block()));
  for (int d = 0; d < rank; ++d)
    if (d != along) all = all.expand(d);
  return all;
}

}  // namespace

Tile AddressedTensor::dim(int axis, Loc at) const {
  Tracer& t = Tracer::at(at, "a view");
  const Tracer::Pin pin(t, at);
  return cast<i64>(extents[static_cast<std::size_t>(axis)]);
}

AddressedPart AddressedTensor::part(std::span<const Subscript> subscripts, Loc at) const {
  Tracer& t = Tracer::at(at, "a view");
  const Tracer::Pin pin(t, at);
  dsl::pointers_of(t, "view", pointer);
  const PartShape p(t, subscripts);
  const int rank = static_cast<int>(p.shape.size());
  Tile offset, inside;
  for (std::size_t d = 0; d < subscripts.size(); ++d) {
    const Subscript& s = subscripts[d];
    const Tile index = indices_of(t, s, p.along[d], rank);
    const Tile step = index * cast<i64>(strides[d]);
    Tile within = (index >= 0) & (index < cast<i64>(extents[d]));
    if (s.end().present()) within = within & (index < cast<i64>(s.end()));
    offset = d == 0 ? step : offset + step;
    inside = d == 0 ? within : inside & within;
  }
  return {Arg(pointer + offset).at(at), Arg(inside).at(at), p.shape, at};
}

Tile AddressedTensor::read(const AddressedPart& part, std::span<const Subscript> subscripts) const {
  Tracer& t = Tracer::at(part.loc, "a view");
  const Tracer::Pin pin(t, part.loc);
  Tile all = load(part.pointers, part.inside, 0);
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
  const DType pointee = t.type(part.pointers).dtype();
  const ir::Type target =
      part.shape.empty() ? ir::Type::scalar(pointee) : ir::Type::tile({pointee, false}, part.shape);
  store(part.pointers, t.tile(dsl::stored_value(t, value, target, part.loc)), part.inside);
}

}  // namespace detail
}  // namespace tegula
