// Lowering of accesses to global memory through pointers. Padding registers access nothing. An
// element is written or combined once, by one of the threads and registers that hold it; the others
// receive the old value through shared memory.
#include "codegen/lower/pointers.h"

#include <algorithm>

#include "codegen/lower/shared.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

AttrList access_attrs(const AttrList& from, std::int64_t width) {
  AttrList attrs;
  attrs.set(AttrName::width, width);
  for (AttrName name : {AttrName::cache, AttrName::evict})
    if (const AttrValue* v = from.find(name)) attrs.set(name, *v);
  return attrs;
}

namespace {

/// Broadcasts a scalar operand of a pointer access to the number of registers of the pointers.
Value like(Lowering& l, Value v, Value pointers) {
  const Type p = l.type(pointers);
  return p.is_vec() && !l.type(v).is_vec() ? l.splat(v, p.count()) : v;
}

}  // namespace

Value is_element(Lowering& l, const LinearLayout& layout) {
  Value all;
  for (int t = 0; t < layout.rank(); ++t) {
    const std::int64_t extent = layout.shape()[t];
    if (layout.cover()[t] == extent) continue;
    const IndexParts parts = l.index_parts(layout, t);
    Value index = l.constants(DType::i32, parts.constant);
    if (parts.thread) index = l.b.add(index, l.b.cast(parts.thread, DType::i32));
    all = l.and_predicates(all, l.b.cmp("lt", index, l.b.i32(extent)));
  }
  return all;
}

namespace {

/// Returns the predicate that excludes padding and elements whose mask is false, or null.
Value mask_of(Lowering& l, const OpData& d, std::size_t mask) {
  const Value given = d.operands.size() > mask ? l.get(d.operands[mask]) : Value();
  const Type tile = l.from.type(d.operands[0]);
  const Value element = tile.is_tile() ? is_element(l, layout_of(tile)) : Value();
  if (!given || !element) return given ? given : element;
  // Ignores the mask of padding: if the mask came through shared memory, it is undefined there.
  return l.b.select(element, given, l.b.constant(Type::scalar(DType::i1), std::int64_t{0}));
}

/// Returns the number of registers that one access of at most 16 bytes may cover: attr align
/// guarantees the alignment, and the registers must hold adjacent elements along the axis.
int registers_of_access(const Lowering& l, const OpData& d, DType dtype) {
  const Type tile = l.from.type(d.operands[0]);
  if (!tile.is_tile() || !d.attrs.find(AttrName::align)) return 1;
  const LinearLayout& layout = layout_of(tile);
  const std::int64_t most =
      std::min<std::int64_t>(16, d.attrs.i(AttrName::align)) / size_bytes(dtype);
  const auto axis = static_cast<int>(d.attrs.i(AttrName::axis));
  int bits = 0;
  while (bits < layout.in_bits(HwDim::Register) && (2 << bits) <= most) {
    const ir::Dims basis = layout.basis(HwDim::Register, bits);
    for (int t = 0; t < layout.rank(); ++t)
      if (basis[t] != (t == axis ? 1 << bits : 0)) return 1 << bits;
    ++bits;
  }
  return 1 << bits;
}

/// Selects every `width`-th register.
Value leaders(Lowering& l, Value v, int width) {
  std::vector<std::int64_t> registers;
  for (std::int64_t r = 0; r < l.type(v).count(); r += width) registers.push_back(r);
  return l.regs(v, registers);
}

/// Returns a predicate for each access of `width` registers: true if the mask is true for all of
/// them.
Value all_of_access(Lowering& l, Value mask, int width) {
  Value all;
  for (std::int64_t i = 0; i < width; ++i) {
    std::vector<std::int64_t> registers;
    for (std::int64_t r = i; r < l.type(mask).count(); r += width) registers.push_back(r);
    all = l.and_predicates(all, l.regs(mask, registers));
  }
  return all;
}

/// Returns the mask without the accesses that `all` covers completely.
Value rest_of_mask(Lowering& l, Value mask, Value all, int width) {
  std::vector<std::int64_t> registers;
  for (std::int64_t r = 0; r < l.type(mask).count(); ++r) registers.push_back(r / width);
  return l.b.op(Opcode::And, {mask, l.b.op(Opcode::Not, {l.regs(all, registers)})});
}

/// Loads `width` registers per access. Partly masked accesses load their elements one by one,
/// unless the mask is known to be equal within each access.
Value load_runs(Lowering& l, const OpData& d, int width, Type result) {
  const Value pointers = l.get(d.operands[0]), mask = mask_of(l, d, 1);
  const auto emit = [&](std::vector<Value> operands, int elements) {
    const OpId load = l.b.create(Opcode::LdGlobal, operands, std::span(&result, 1),
                                 access_attrs(d.attrs, elements));
    return l.to[load].results[0];
  };
  if (!mask) return emit({leaders(l, pointers, width)}, width);
  const Value fill = d.operands.size() > 2 ? like(l, l.get(d.operands[2]), pointers)
                                           : l.b.op(Opcode::Poison, {}, result);
  const Value each = like(l, mask, pointers);
  const bool is_whole = d.attrs.i(AttrName::width, 1) % width == 0;
  const Value all = is_whole ? leaders(l, each, width) : all_of_access(l, each, width);
  const Value wide = emit({leaders(l, pointers, width), all, fill}, width);
  return is_whole ? wide : emit({pointers, rest_of_mask(l, each, all, width), wide}, 1);
}

/// Returns a predicate: true in the thread, or in the replica of a replicated tile, that performs
/// the effect.
Value is_first(Lowering& l, Type tile) {
  return tile.is_tile() ? l.is_replica_zero(layout_of(tile)) : l.is_first_thread();
}

}  // namespace

void lower_Load(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type own = l.from.type(d.results[0]);
  if (const int width = registers_of_access(l, d, own.dtype()); width > 1)
    return l.set(d.results[0], load_runs(l, d, width, Lowering::lowered_type(own)));
  std::vector<Value> operands{l.get(d.operands[0])};
  if (const Value mask = mask_of(l, d, 1)) operands.push_back(like(l, mask, operands[0]));
  if (d.operands.size() > 2) operands.push_back(like(l, l.get(d.operands[2]), operands[0]));
  const Type result = Lowering::lowered_type(l.from.type(d.results[0]));
  const OpId load =
      l.b.create(Opcode::LdGlobal, operands, std::span(&result, 1), access_attrs(d.attrs, 1));
  l.set(d.results[0], l.to[load].results[0]);
}

namespace {

void emit_store(Lowering& l, OpId op, AttrList attrs) {
  const OpData& d = l.from[op];
  const Value pointers = l.get(d.operands[0]);
  std::vector<Value> operands{pointers, like(l, l.get(d.operands[1]), pointers)};
  const Value mask = mask_of(l, d, 2);
  if (const Value p = l.and_predicates(mask, is_first(l, l.from.type(d.operands[0]))))
    operands.push_back(like(l, p, pointers));
  l.b.create(Opcode::StGlobal, operands, std::span<const Type>(), std::move(attrs));
}

/// Stores `width` registers per access where the mask is true for all of them, else one by one.
void store_runs(Lowering& l, const OpData& d, int width) {
  const Value pointers = l.get(d.operands[0]), values = like(l, l.get(d.operands[1]), pointers);
  const auto emit = [&](std::vector<Value> operands, int elements) {
    l.b.create(Opcode::StGlobal, operands, std::span<const Type>(),
               access_attrs(d.attrs, elements));
  };
  const Value mask = l.and_predicates(mask_of(l, d, 2), is_first(l, l.from.type(d.operands[0])));
  if (!mask) return emit({leaders(l, pointers, width), values}, width);
  const Value each = like(l, mask, pointers), all = all_of_access(l, each, width);
  emit({leaders(l, pointers, width), values, all}, width);
  emit({pointers, values, rest_of_mask(l, each, all, width)}, 1);
}

}  // namespace

void lower_Store(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const DType stored = l.from.type(d.operands[1]).dtype();
  if (const int width = registers_of_access(l, d, stored); width > 1)
    return store_runs(l, d, width);
  emit_store(l, op, access_attrs(d.attrs, 1));
}

// ---- atomics ------------------------------------------------------------------------------------
namespace {

/// For each register, the first register that holds the same element.
struct FirstReplicas {
  explicit FirstReplicas(const LinearLayout& layout) {
    const std::uint32_t copies = layout.free_bits(HwDim::Register);
    for (int r = 0; r < layout.registers(); ++r) {
      const int leader = static_cast<int>(static_cast<std::uint32_t>(r) & ~copies);
      if (leader == r) registers.push_back(r);
      place.push_back(static_cast<int>(std::ranges::find(registers, leader) - registers.begin()));
    }
  }
  std::vector<int> registers, place;
};

/// Passes the old values from the first replicas to the others through shared memory, which also
/// has room for padding.
Value broadcast_to_replicas(Lowering& l, Type tile, Value old) {
  const ir::Dims shape = layout_of(tile).cover();
  ir::Dims order;
  for (int d = shape.size() - 1; d >= 0; --d) order.push_back(d);
  const SharedLayout shared = SharedLayout::plain(shape, size_bytes(tile.dtype()), order);
  const Value base = l.scratch(shared.bytes(), std::max(16, shared.alignment()));
  l.barrier();
  store_shared(l, base, shared, layout_of(tile), old, false);
  l.barrier();
  return load_shared(l, base, shared, layout_of(tile), tile.elem(), false);
}

/// An atomic operation of the machine form that returns values, and its simt op. Operands: an
/// address, values, then the mask.
struct Atomic {
  const OpData& d;
  Opcode opcode;
  std::size_t operands;
  AttrList attrs;

  Value emit(Lowering& l, std::span<const Value> all, Type result) const {
    return l.to[l.b.create(opcode, all, std::span(&result, 1), attrs)].results[0];
  }
};

Atomic atomic_of(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const std::size_t operands = *mask_operand(d.opcode);
  if (d.opcode == Opcode::AtomicCas) return {d, Opcode::CasGlobal, operands, d.attrs};
  if (d.opcode == Opcode::AtomicRmw) return {d, Opcode::AtomGlobal, operands, d.attrs};
  AttrList attrs = d.attrs;
  attrs.set(AttrName::width, std::int64_t{1});
  return {d, Opcode::LdGlobal, operands, attrs};
}

Value combine_tile(Lowering& l, const Atomic& a) {
  const OpData& d = a.d;
  const Type tile = l.from.type(d.results[0]);
  const FirstReplicas leaders(layout_of(tile));
  const auto count = static_cast<std::int64_t>(leaders.registers.size());
  const auto of_first_replicas = [&](Value v) {
    return l.type(v).is_vec() ? l.regs(v, leaders.registers) : l.splat(v, count);
  };
  std::vector<Value> operands;
  for (std::size_t i = 0; i < a.operands; ++i)
    operands.push_back(of_first_replicas(l.get(d.operands[i])));
  const Value mask = mask_of(l, d, a.operands), first = is_first(l, tile);
  if (const Value p = l.and_predicates(mask, first)) operands.push_back(of_first_replicas(p));
  const Value old = l.regs(a.emit(l, operands, Type::vec(tile.elem(), count)), leaders.place);
  return first && is_used(l.from, d.results[0]) ? broadcast_to_replicas(l, tile, old) : old;
}

/// Evaluates `make` in the first thread and broadcasts the value to all threads.
template <class Make>
Value first_threads(Lowering& l, Type type, const Make& make) {
  const Value word = l.scratch(size_bytes(type.dtype()), 8);
  l.barrier();
  l.b.effect(Opcode::StShared, {word, make(), is_first(l, type)}, {{AttrName::width, 1}});
  l.barrier();
  return l.b.op(Opcode::LdShared, {word}, type, {{AttrName::width, 1}});
}

/// Performs the operation in the first thread.
Value combine_scalar(Lowering& l, const Atomic& a) {
  const OpData& d = a.d;
  const Type type = l.from.type(d.results[0]);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < a.operands; ++i) operands.push_back(l.get(d.operands[i]));
  operands.push_back(l.and_predicates(mask_of(l, d, a.operands), is_first(l, type)));
  const auto combined = [&] { return a.emit(l, operands, type); };
  return is_used(l.from, d.results[0]) ? first_threads(l, type, combined) : combined();
}

void lower_atomic(Lowering& l, OpId op) {
  const Atomic a = atomic_of(l, op);
  const Value result = a.d.results[0];
  l.set(result, l.from.type(result).is_tile() ? combine_tile(l, a) : combine_scalar(l, a));
}

}  // namespace

void lower_AtomicRmw(Lowering& l, OpId op) { lower_atomic(l, op); }
void lower_AtomicCas(Lowering& l, OpId op) { lower_atomic(l, op); }
void lower_AtomicLoad(Lowering& l, OpId op) { lower_atomic(l, op); }

void lower_AtomicStore(Lowering& l, OpId op) {
  AttrList attrs = l.from[op].attrs;
  attrs.set(AttrName::width, std::int64_t{1});
  emit_store(l, op, std::move(attrs));
}

/// Emits a loop in which the first thread polls. The other threads wait at the barrier that the
/// pass memory_order placed after the op.
void lower_WaitUntil(Lowering& l, OpId op) {
  constexpr std::int64_t kPause = 40;  // nanoseconds
  const OpData& d = l.from[op];
  const Value pointer = l.get(d.operands[0]), wanted = l.get(d.operands[1]);
  const Type type = l.type(wanted);
  OpId loop;
  l.when(is_first(l, type), [&] { loop = l.b.make_while({}); });
  Builder test(l.to, l.to[loop].regions[0]), pause(l.to, l.to[loop].regions[1]);
  test.loc = pause.loc = l.b.loc;
  const Value found = test.op(Opcode::LdGlobal, {pointer}, type,
                              {{AttrName::width, 1},
                               {AttrName::sem, "acquire"},
                               {AttrName::scope, d.attrs.s(AttrName::scope, "gpu")}});
  const Value waits = test.cmp(d.attrs.s(AttrName::kind) == "eq" ? "ne" : "lt", found, wanted);
  test.yield(std::span(&waits, 1));
  pause.effect(Opcode::Nanosleep, {}, {{AttrName::count, kPause}});
  pause.yield({});
}

void lower_ReadRegister(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type type = l.from.type(d.results[0]);
  const auto read = [&] {
    return l.b.op(Opcode::SpecialReg, std::initializer_list<Value>{}, type,
                  {{AttrName::kind, d.attrs.s(AttrName::kind)}});
  };
  l.set(d.results[0], is_used(l.from, d.results[0]) ? first_threads(l, type, read) : read());
}

void lower_GridBarrier(Lowering&, OpId) {
  throw InternalError("grid_barrier is removed by expand_grid_barriers");
}

void emit_reduction(Lowering& l, const std::vector<Value>& operands, std::string_view kind,
                    std::int64_t run) {
  const Type old = l.type(operands[1]);
  AttrList attrs = attr_list({{AttrName::kind, kind}});
  if (run > 1) attrs.set(AttrName::width, run);
  l.b.create(Opcode::AtomGlobal, operands, std::span(&old, 1), attrs);
}

/// All threads' writes precede the counter's increment, and its result precedes their reads:
/// barriers extend the fences of one thread to the others (PTX ISA, "Causality order").
void lower_ArriveAndTestLast(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Value last = l.b.cast(l.b.sub(l.get(d.operands[1]), l.b.i32(1)), DType::u32);
  const Value first =
      l.b.cmp("eq", l.b.op(Opcode::Tid, std::initializer_list<Value>{}), l.b.i32(0));
  const Value word = l.scratch(size_bytes(DType::u32), size_bytes(DType::u32));
  l.barrier();
  const Value before =
      l.b.op(Opcode::AtomGlobal, {l.get(d.operands[0]), last, first},
             {{AttrName::kind, "inc"}, {AttrName::sem, "acq_rel"}, {AttrName::scope, "gpu"}});
  l.b.effect(Opcode::StShared, {word, before, first}, {{AttrName::width, 1}});
  l.barrier();
  const Value said =
      l.b.op(Opcode::LdShared, {word}, Type::scalar(DType::u32), {{AttrName::width, 1}});
  l.set(d.results[0], l.b.cmp("eq", said, last));
}

}  // namespace tegula::codegen
