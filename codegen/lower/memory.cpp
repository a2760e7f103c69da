// Lowering of global memory: boxes of views.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "codegen/lower/box.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/pointers.h"
#include "codegen/lower/tma.h"
#include "ir/eval/eval.h"
#include "ir/layout/linear_layout.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Return the registers in the order of the vectors, and the inverse permutation.
std::vector<int> flattened(const std::vector<Vector>& vectors) {
  std::vector<int> order;
  for (const Vector& v : vectors) order.insert(order.end(), v.registers.begin(), v.registers.end());
  return order;
}
std::vector<int> inverse(const std::vector<int>& order, int registers) {
  std::vector<int> positions(static_cast<std::size_t>(registers), 0);
  for (std::size_t i = 0; i < order.size(); ++i)
    positions[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  return positions;
}

/// Drops the vectors whose elements an earlier register of the thread also holds.
std::vector<Vector> without_copies(std::vector<Vector> vectors, const LinearLayout& layout) {
  const std::uint32_t copies = layout.free_bits(HwDim::Register);
  std::erase_if(vectors, [&](const Vector& v) {
    return (static_cast<std::uint32_t>(v.registers.front()) & copies) != 0;
  });
  return vectors;
}

}  // namespace

void lower_LoadView(Lowering& l, OpId op) {
  if (l.chunked_load_add(op)) return;
  const OpData& d = l.from[op];
  const Type type = l.from.type(d.results[0]);
  Box box(l, op);
  if (!type.is_tile()) {
    const Value address = l.b.op(Opcode::AddPtr, {box.base, box.offset});
    std::vector<Value> operands{address};
    if (box.scalar_predicate)
      operands.insert(operands.end(), {box.scalar_predicate, l.b.zero(type)});
    const OpId load =
        l.b.create(Opcode::LdGlobal, operands, std::span(&type, 1), access_attrs(d.attrs, 1));
    return l.set(d.results[0], l.to[load].results[0]);
  }
  const LinearLayout& layout = layout_of(type);
  const auto vectors = box.vectors(layout);
  const auto access = box.access(vectors, layout);
  const auto order = flattened(vectors);
  const Type loaded = Type::vec(type.elem(), static_cast<std::int64_t>(order.size()));
  std::vector<Value> operands{access.addresses};
  if (access.predicate) operands.insert(operands.end(), {access.predicate, l.b.zero(loaded)});
  const auto width = static_cast<std::int64_t>(vectors.front().registers.size());
  const OpId load =
      l.b.create(Opcode::LdGlobal, operands, std::span(&loaded, 1), access_attrs(d.attrs, width));
  l.set(d.results[0], l.regs(l.to[load].results[0], inverse(order, layout.registers())));
}

namespace {

bool combines(const OpData& store) { return store.attrs.find(AttrName::kind) != nullptr; }

/// Stores the elements, or combines them in memory, `width` at a time.
void store_or_combine(Lowering& l, const OpData& store, const std::vector<Value>& operands,
                      std::int64_t width) {
  if (!combines(store)) {
    l.b.create(Opcode::StGlobal, operands, std::span<const Type>(),
               access_attrs(store.attrs, width));
    return;
  }
  emit_reduction(l, operands, store.attrs.s(AttrName::kind), width);
}

/// Returns the number of elements that one instruction can add: up to 16 bytes on GPUs with TMA,
/// e.g. `red.add.v4.f32` (PTX ISA, "red": vectors need sm_90); 1 without vector instructions.
std::size_t longest_reduction(const Lowering& l, const OpData& store, DType dtype) {
  const bool is_vector_type = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  const bool has_vectors =
      is_vector_type && store.attrs.s(AttrName::kind) == "add" && l.from.info.target->has_tma;
  return has_vectors ? 16 / static_cast<std::size_t>(size_bytes(dtype)) : 1;
}

/// Registers to combine in runs of `run` adjacent elements, one instruction per run. Addresses are
/// computed for all elements, although only the first one of a run is used.
struct CombinedElements {
  std::vector<Vector> elements;
  std::int64_t run = 1;
};
CombinedElements combined_elements(Lowering& l, const OpData& store, const Box& box, Type tile) {
  const LinearLayout& layout = layout_of(tile);
  const auto runs = without_copies(box.vectors(layout), layout);
  const std::size_t run = runs.front().registers.size();
  const bool is_vector =
      run > 1 && std::has_single_bit(run) && run <= longest_reduction(l, store, tile.dtype());
  if (!is_vector) return {without_copies(box.vectors(layout, size_bytes(tile.dtype())), layout)};
  CombinedElements out{{}, static_cast<std::int64_t>(run)};
  for (const Vector& v : runs)
    for (int r : v.registers) {
      Vector element = v;
      element.registers = {r};
      out.elements.push_back(element);
    }
  return out;
}

}  // namespace

void lower_StoreView(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  if (d.attrs.i(AttrName::tma) == 1) return store_by_tma(l, op);
  const Type type = l.from.type(ir::stored_value(d));
  Box box(l, op);
  const Value value = l.get(ir::stored_value(d));
  if (!type.is_tile()) {
    const Value address = l.b.op(Opcode::AddPtr, {box.base, box.offset});
    return store_or_combine(
        l, d, {address, value, l.and_predicates(l.is_first_thread(), box.scalar_predicate)}, 1);
  }
  const LinearLayout& layout = layout_of(type);
  const CombinedElements combined =
      combines(d) ? combined_elements(l, d, box, type) : CombinedElements{};
  const auto vectors =
      combines(d) ? combined.elements : without_copies(box.vectors(layout), layout);
  auto access = box.access(vectors, layout);
  if (const Value first = l.is_replica_zero(layout))
    access.predicate = l.and_predicates(access.predicate, first);
  std::vector<Value> operands{access.addresses, l.regs(value, flattened(vectors))};
  const auto count = static_cast<std::int64_t>(vectors.size());
  if (access.predicate)
    operands.push_back(l.type(access.predicate).is_vec() ? access.predicate
                                                         : l.splat(access.predicate, count));
  store_or_combine(
      l, d, operands,
      combines(d) ? combined.run : static_cast<std::int64_t>(vectors.front().registers.size()));
}

void lower_AtomicView(Lowering&, OpId) {
  throw InternalError("atomic_view should have been removed by lower_view_atomics");
}

// ---- facts about the launch
namespace {
void lower_special(Lowering& l, OpId op, Opcode simt) {
  const OpData& d = l.from[op];
  const Value v = l.b.op(simt, std::initializer_list<Value>{}, Type::scalar(DType::i32),
                         {{AttrName::axis, d.attrs.i(AttrName::axis)}});
  l.set(d.results[0], l.b.cast(v, l.from.type(d.results[0]).dtype()));
}
}  // namespace

void lower_ProgramId(Lowering& l, OpId op) { lower_special(l, op, Opcode::CtaId); }
void lower_NumPrograms(Lowering& l, OpId op) { lower_special(l, op, Opcode::NumCtas); }

void lower_ViewDim(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  l.set(d.results[0], l.view_dim(d.operands[0], static_cast<int>(d.attrs.i(AttrName::axis)),
                                 l.from.type(d.results[0]).dtype()));
}
void lower_ViewStride(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  l.set(d.results[0], l.view_stride(d.operands[0], static_cast<int>(d.attrs.i(AttrName::axis)),
                                    l.from.type(d.results[0]).dtype()));
}
void lower_ViewPtr(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  l.set(d.results[0], l.view_pointer(d.operands[0]));
}
void lower_MakeView(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const auto parts = std::span(d.operands).subspan(1);
  ViewParts view{l.get(d.operands[0]), {}, {}};
  for (std::size_t i = 0; i < parts.size(); ++i)
    (i < parts.size() / 2 ? view.dims : view.strides).push_back(l.get(parts[i]));
  l.set_view(d.results[0], std::move(view));
}
namespace {

/// Emits a trap for an assumption that does not hold; the simulator reports it.
void check(Lowering& l, Value holds, std::span<const Value> compared, const AttrList& attrs) {
  const auto trap = [&] {
    l.b.create(Opcode::Trap, compared, std::span<const Type>(), attrs);
    l.b.yield({});
  };
  l.branch(l.b.op(Opcode::Not, {holds}), {}, trap, [&] { l.b.yield({}); });
}

/// Returns the comparison that an assumption states; null if the assumption is not a comparison, or
/// if its operands are pointers, or tiles whose layout differs from the result's.
OpId comparison_of(const Kernel& k, Value fact) {
  const OpId def = k[fact].def;
  // The fact of a tile is or-ed with "the element is absent". That operand was created later, so
  // the smaller index is the comparison.
  if (def && k[def].opcode == Opcode::Or && k.type(fact).is_tile())
    return comparison_of(k, std::ranges::min(k[def].operands, {}, &Value::index));
  if (!def || k[def].opcode != Opcode::Cmp) return {};
  const bool is_comparison_of_values = std::ranges::all_of(k[def].operands, [&](Value v) {
    const Type t = k.type(v);
    return !t.is_pointer() && (t.is_scalar() || t.layout() == k.type(fact).layout());
  });
  return is_comparison_of_values ? def : OpId();
}

}  // namespace

/// Emits checks only for the simulator, one for each thread's elements: otherwise an assumption
/// serves only the analyses.
void lower_Assume(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  if (!l.context.keep_checks || l.is_producer()) return;
  const Type type = l.from.type(d.operands[0]);
  AttrList attrs = d.attrs;
  OpId compared;
  const std::optional<ir::FindingKind> finding = ir::finding_of(d.attrs.s(AttrName::kind));
  if (!finding) attrs.set(AttrName::kind, std::string("assume"));
  if (!finding || ir::shows_numbers(*finding)) {
    compared = comparison_of(l.from, d.operands[0]);
    if (compared) attrs.set(AttrName::pred, std::string(l.from[compared].attrs.s(AttrName::pred)));
  }
  Value holds = l.get(d.operands[0]);
  if (const Value element = type.is_tile() ? is_element(l, layout_of(type)) : Value())
    holds = l.b.op(Opcode::Or, {holds, l.b.op(Opcode::Not, {element})});
  const auto part = [&](Value machine, Value v, int r) {
    return l.from.type(machine).is_tile() ? l.regs(v, std::vector<std::int64_t>{r}) : v;
  };
  Value all;
  for (int r = 0; r < (type.is_tile() ? layout_of(type).registers() : 1); ++r) {
    const Value one = part(d.operands[0], holds, r);
    if (!compared) {
      all = l.and_predicates(all, one);
      continue;
    }
    std::vector<Value> sides;
    for (Value v : l.from[compared].operands) sides.push_back(part(v, l.get(v), r));
    check(l, one, sides, attrs);
  }
  if (all) check(l, all, {}, attrs);
}

}  // namespace tegula::codegen
