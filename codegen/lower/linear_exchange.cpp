// General exchange: one replica of each element is written at its row-major index, all threads
// synchronize, and each thread reads the elements that it needs.
#include "codegen/lower/linear_exchange.h"

#include "codegen/lower/shared.h"

namespace tegula::codegen {

using namespace ir;

Value as_stored(Lowering& l, Value v) {
  const Type type = l.type(v);
  if (type.is_pointer())
    return l.b.op(Opcode::Repack, {v}, Type::vec({DType::i64, false}, type.count()));
  return type.dtype() == DType::i1 ? l.b.cast(v, DType::u8) : v;
}

Value as_before(Lowering& l, Value stored, Elem elem) {
  if (elem.pointer)
    return l.b.op(Opcode::Repack, {stored}, Type::vec(elem, l.type(stored).count()));
  if (elem.dtype == DType::i1)
    return l.b.cmp("ne", stored, l.b.constant(Type::scalar(DType::u8), std::int64_t{0}));
  return stored;
}

namespace {

SharedLayout row_major(const Dims& shape, int bytes) {
  Dims order;
  for (int d = shape.size() - 1; d >= 0; --d) order.push_back(d);
  return SharedLayout::plain(shape, bytes, order);
}

/// Returns true if a side may use vectors. Both sides address the same bytes by element number, so
/// either may if its layout allows, independently of the other. Padding has no element number.
bool has_vectors(const SharedLayout& shared, const LinearLayout& layout) {
  return layout.is_exact() && shared_fn(shared, layout);
}

/// A part that is the whole tile is addressed directly; the box of a larger tile is not.
bool is_all_of(const LinearLayout& layout, const Dims& whole) { return layout.shape() == whole; }

void store_part(Lowering& l, Value base, const TilePart& part, const Dims& whole) {
  const LinearLayout& layout = *part.layout;
  const int bytes = size_bytes(l.type(part.registers).dtype());
  if (const SharedLayout shared = row_major(whole, bytes);
      is_all_of(layout, whole) && has_vectors(shared, layout))
    return store_shared(l, base, shared, layout, part.registers, false);
  const LinearAddresses at(l, base, layout, whole, part.offset, bytes);
  std::vector<Value> operands{at.addresses, part.registers};
  if (const Value p = l.and_predicates(at.are_elements, l.is_replica_zero(layout)))
    operands.push_back(l.type(p).is_vec() ? p : l.splat(p, layout.registers()));
  l.b.effect(Opcode::StShared, operands, {{AttrName::width, 1}});
}

Value read(Lowering& l, Value base, const LinearLayout& layout, const Dims& whole,
           const Dims& offset, Elem elem) {
  const int bytes = size_bytes(elem.dtype);
  if (const SharedLayout shared = row_major(whole, bytes);
      is_all_of(layout, whole) && has_vectors(shared, layout))
    return load_shared(l, base, shared, layout, elem, false);
  const LinearAddresses at(l, base, layout, whole, offset, bytes);
  return l.b.op(Opcode::LdShared, {at.addresses}, Type::vec(elem, layout.registers()),
                {{AttrName::width, 1}});
}

/// Exchanges a tile by element numbers: `written` and `wanted` have the same number of elements.
Value exchanged_linearly(Lowering& l, std::span<const TilePart> parts, const Dims& written,
                         const LinearLayout& to, const Dims& wanted, const Dims& offset) {
  const Elem elem = l.type(parts[0].registers).elem();
  std::vector<TilePart> stored(parts.begin(), parts.end());
  for (TilePart& part : stored) part.registers = as_stored(l, part.registers);
  const Elem in_memory = l.type(stored[0].registers).elem();
  const Value base = l.scratch(linear_bytes(l, written, stored[0].registers), 16);
  l.barrier();
  for (const TilePart& part : stored) store_part(l, base, part, written);
  l.barrier();
  return as_before(l, read(l, base, to, wanted, offset, in_memory), elem);
}

}  // namespace

Value index_along(Lowering& l, const LinearLayout& layout, int dim) {
  const IndexFn fn = index_fn(layout, dim);
  if (fn.is_additive) {
    const IndexParts parts = l.index_parts(layout, dim);
    const Value c = l.constants(DType::i32, parts.constant);
    return parts.thread ? l.b.add(c, parts.thread) : c;
  }
  ThreadOffset flips = fn.thread, adds = fn.thread;
  flips.digits.clear();
  adds.bits.clear();
  std::vector<std::int64_t> flip, add;
  for (const RegisterOffset& part : fn.registers) {
    flip.push_back(part.flip);
    add.push_back(part.add);
  }
  Value index = l.constants(DType::i32, flip);
  if (const Value t = l.thread_value(flips)) index = l.b.op(Opcode::Xor, {index, t});
  index = l.b.add(index, l.constants(DType::i32, add));
  if (const Value t = l.thread_value(adds)) index = l.b.add(index, t);
  return index;
}

std::int64_t linear_stride(const Dims& whole, int axis, int bytes) {
  std::int64_t stride = bytes;
  for (int d = whole.size() - 1; d > axis; --d) stride *= whole[d];
  return stride;
}

std::int64_t linear_bytes(Lowering& l, const Dims& shape, Value stored) {
  return shape.product() * size_bytes(l.type(stored).dtype());
}

LinearAddresses::LinearAddresses(Lowering& l, Value base, const LinearLayout& layout,
                                 const Dims& whole, const Dims& offset, int bytes, int but_axis) {
  std::int64_t from = 0;
  for (int d = 0; d < whole.size(); ++d) from += offset[d] * linear_stride(whole, d, bytes);
  addresses = l.splat(from == 0 ? base : l.b.add(base, l.b.i32(from)), layout.registers());
  for (int d = layout.rank() - 1; d >= 0; --d) {
    Value index = index_along(l, layout, d);
    const std::int64_t extent = layout.shape()[d];
    if (layout.cover()[d] != extent) {
      are_elements = l.and_predicates(are_elements, l.b.cmp("lt", index, l.b.i32(extent)));
      index = l.b.op(Opcode::Min, {index, l.b.i32(extent - 1)});
    }
    if (d == but_axis) continue;
    addresses = l.b.add(addresses, l.b.mul(index, l.b.i32(linear_stride(whole, d, bytes))));
  }
}

void write_linear(Lowering& l, Value base, const LinearLayout& layout, Value stored) {
  store_part(l, base, {stored, &layout, Dims::filled(layout.rank(), 0)}, layout.shape());
}

Value through_linear_memory(Lowering& l, Value v, const LinearLayout& from,
                            const LinearLayout& to) {
  const TilePart all{v, &from, Dims::filled(from.rank(), 0)};
  return exchanged_linearly(l, std::span(&all, 1), from.shape(), to, to.shape(),
                            Dims::filled(to.rank(), 0));
}

Value assembled_in_memory(Lowering& l, std::span<const TilePart> parts, const Dims& whole,
                          const LinearLayout& to, const Dims& offset) {
  return exchanged_linearly(l, parts, whole, to, whole, offset);
}

}  // namespace tegula::codegen
