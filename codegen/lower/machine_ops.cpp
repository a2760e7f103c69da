// Lowering of the machine form's own ops: layout conversion, slices, shared tiles, asynchronous
// copies.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/lower/box.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/shared.h"
#include "ir/analysis/access_width.h"
#include "ir/copy_layout.h"
#include "ir/layout/layout_ops.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

// ---- shared tiles
// ---------------------------------------------------------------------------------------------------
namespace {

Value optional_operand(const OpData& d, std::size_t i) {
  return i < d.operands.size() ? d.operands[i] : Value();
}

}  // namespace

// The address is known from attr offset; its users ask slot_of.
void lower_SmemAlloc(Lowering&, OpId) {}

void lower_SmemStore(Lowering& l, OpId op) {
  l.wait_for_cluster_reads();
  const OpData& d = l.from[op];
  const SmemSlot at = slot_of(l, d.operands[0], optional_operand(d, 2));
  store_shared(l, at.base, at.layout, layout_of(l.from.type(d.operands[1])), l.get(d.operands[1]),
               true);
}

void lower_SmemLoad(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  if (l.is_sliced_load(d.results[0])) return;
  const Type type = l.from.type(d.results[0]);
  const SmemSlot at = slot_of(l, d.operands[0], optional_operand(d, 1));
  l.set(d.results[0], load_shared(l, at.base, at.layout, layout_of(type), type.elem(), true));
}

// ---- asynchronous copies
// --------------------------------------------------------------------------------------------
void lower_CopyAsync(Lowering& l, OpId op) {
  l.wait_for_cluster_reads();
  const OpData& d = l.from[op];
  const SmemSlot at = slot_of(l, d.operands[0], d.operands[1]);
  const int fast = contiguous_dim(l.from, d);
  const int bytes = at.layout.element_bytes();
  const int vector = std::min(access_elements(l.from, d), 16 / bytes);
  const LinearLayout dist = copy_layout(at.layout.shape(), fast, vector, l.warps());
  Box box = Box::of_copy(l, op);
  const auto vectors = box.vectors(dist);
  const auto fn = shared_fn(at.layout, dist);
  if (!fn) throw InternalError("copy_async: " + fn.reason());
  std::vector<std::pair<int, RegisterOffset>> parts;
  for (const Vector& v : vectors) {
    const auto& first = fn->registers[static_cast<std::size_t>(v.registers.front())];
    parts.emplace_back(first.slab, first.part);
  }
  const Value first_copy = l.is_replica_zero(dist);
  const RegionId outer = l.b.region();
  if (first_copy) l.b.at_end(l.to[l.b.make_if(first_copy, {})].regions[0]);
  const auto access = box.access(vectors, dist);
  std::vector<Value> operands{shared_addresses(l, at.base, fn->slabs, parts), access.addresses};
  if (access.predicate) operands.push_back(access.predicate);
  const auto copied = static_cast<std::int64_t>(vectors.front().registers.size()) * bytes;
  AttrList attrs =
      attr_list({{AttrName::bytes, copied}, {AttrName::cache, copied == 16 ? "cg" : "ca"}});
  l.b.create(Opcode::CpAsync, operands, std::span<const Type>(), attrs);
  if (first_copy) l.b.at_end(outer);
}

void lower_AsyncCommit(Lowering& l, OpId) { l.b.effect(Opcode::CpAsyncCommit, {}); }
void lower_AsyncWait(Lowering& l, OpId op) {
  l.b.effect(Opcode::CpAsyncWait, {}, {{AttrName::count, l.from[op].attrs.i(AttrName::count)}});
}
void lower_CtaBarrier(Lowering& l, OpId op) {
  // Attr generic_proxy: what threads have stored in front of it, wgmma and TMA read behind it.
  if (l.from[op].attrs.i(AttrName::generic_proxy) == 1) l.b.effect(Opcode::FenceProxyAsync, {});
  l.barrier();
}

// ---- neighbours on the stream
namespace {

/// Targets without dependent launch run kernels of a stream one after another anyway.
void on_dependent_launch(Lowering& l, Opcode opcode) {
  if (l.from.info.target->has_dependent_launch) l.b.effect(opcode, {});
}

}  // namespace

/// Pinned: the assembler would move work from before the wait, which can overlap the previous
/// kernels, behind it.
void lower_GridDependencyWait(Lowering& l, OpId) {
  on_dependent_launch(l, Opcode::Pin);
  on_dependent_launch(l, Opcode::GridDepWait);
}
void lower_GridLaunchDependents(Lowering& l, OpId) {
  on_dependent_launch(l, Opcode::GridDepLaunch);
}

}  // namespace tegula::codegen
