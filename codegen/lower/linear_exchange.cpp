// The general exchange: one replica of each element is written at its row-major index, all threads
// synchronise, and each thread reads the elements it needs.
#include "codegen/lower/linear_exchange.h"

#include <algorithm>

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

/// Both sides address the same bytes by the same numbers, so a side whose layout allows it uses
/// vectors whatever the other side does. What pads a layout has no number.
bool has_vectors(const SharedLayout& shared, const LinearLayout& layout) {
  return layout.is_exact() && shared_fn(shared, layout);
}

/// The index of each register's element along `dim`, also if a thread's bits and a register's
/// overlap.
Value index_along(Lowering& l, const LinearLayout& layout, int dim) {
  const IndexFn fn = index_fn(layout, dim);
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

/// Linear index of each register's element, and a predicate for the registers that hold one; no
/// predicate: all do.
struct Numbers {
  Value addresses;
  Value are_elements;

  Numbers(Lowering& l, Value base, const LinearLayout& layout, int bytes) {
    std::int64_t stride = bytes;
    addresses = l.splat(base, layout.registers());
    for (int d = layout.rank() - 1; d >= 0; --d) {
      Value index = index_along(l, layout, d);
      const std::int64_t extent = layout.shape()[d];
      if (layout.cover()[d] != extent) {
        are_elements = l.and_predicates(are_elements, l.b.cmp("lt", index, l.b.i32(extent)));
        index = l.b.op(Opcode::Min, {index, l.b.i32(extent - 1)});
      }
      addresses = l.b.add(addresses, l.b.mul(index, l.b.i32(stride)));
      stride *= extent;
    }
  }
};

void write(Lowering& l, Value base, const LinearLayout& layout, Value data) {
  const int bytes = size_bytes(l.type(data).dtype());
  const SharedLayout shared = row_major(layout.shape(), bytes);
  if (has_vectors(shared, layout)) return store_shared(l, base, shared, layout, data, false);
  const Numbers at(l, base, layout, bytes);
  std::vector<Value> operands{at.addresses, data};
  if (const Value p = l.and_predicates(at.are_elements, l.is_replica_zero(layout)))
    operands.push_back(l.type(p).is_vec() ? p : l.splat(p, layout.registers()));
  l.b.effect(Opcode::StShared, operands, {{AttrName::width, 1}});
}

Value read(Lowering& l, Value base, const LinearLayout& layout, Elem elem) {
  const int bytes = size_bytes(elem.dtype);
  const SharedLayout shared = row_major(layout.shape(), bytes);
  if (has_vectors(shared, layout)) return load_shared(l, base, shared, layout, elem, false);
  const Numbers at(l, base, layout, bytes);
  return l.b.op(Opcode::LdShared, {at.addresses}, Type::vec(elem, layout.registers()),
                {{AttrName::width, 1}});
}

}  // namespace

Value through_linear_memory(Lowering& l, Value v, const LinearLayout& from,
                            const LinearLayout& to) {
  const Elem elem = l.type(v).elem();
  const Value data = as_stored(l, v);
  const Elem stored = l.type(data).elem();
  const Value base = l.scratch(from.shape().product() * size_bytes(stored.dtype), 16);
  l.barrier();
  write(l, base, from, data);
  l.barrier();
  return as_before(l, read(l, base, to, stored), elem);
}

}  // namespace tegula::codegen
