// Lowering of the machine form's own ops: layout conversion, slices, shared tiles, asynchronous
// copies.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/lower/box.h"
#include "codegen/lower/fold_tuple.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/shared.h"
#include "ir/analysis/access_width.h"
#include "ir/copy_layout.h"
#include "ir/layout/layout_ops.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

// ---- shared tiles
namespace {

Value optional_operand(const OpData& d, std::size_t i) {
  return i < d.operands.size() ? d.operands[i] : Value();
}

}  // namespace

// Emits nothing: attr offset is the address, and users call slot_of.
void lower_SmemAlloc(Lowering&, OpId) {}

void lower_SmemStore(Lowering& l, OpId op) {
  l.wait_for_cluster_reads();
  const OpData& d = l.from[op];
  const SmemSlot slot = slot_of(l, d.operands[0], optional_operand(d, 2));
  store_shared(l, slot.base, slot.layout, layout_of(l.from.type(d.operands[1])),
               l.get(d.operands[1]), true);
}

void lower_SmemLoad(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  if (l.is_sliced_load(d.results[0])) return;
  const Type type = l.from.type(d.results[0]);
  const SmemSlot slot = slot_of(l, d.operands[0], optional_operand(d, 1));
  l.set(d.results[0], load_shared(l, slot.base, slot.layout, layout_of(type), type.elem(), true));
}

// ---- asynchronous copies
namespace {

/// Copies a view's box into a slot with the threads of a layout.
class BoxCopies {
 public:
  BoxCopies(Lowering& l, OpId op, const SmemSlot& slot)
      : l_(l), at_(slot), box_(l, op), dist_(layout_of_copies(l, op, slot.layout)) {
    auto fn = shared_fn(slot.layout, dist_);
    if (!fn) throw InternalError("copy_async: " + fn.reason());
    fn_ = std::move(*fn);
  }

  /// Emits the copies. If a vector is padding in some threads, a branch excludes these threads.
  void emit() {
    std::vector<Vector> whole, padded;
    const std::vector<bool> padding = padded_somewhere();
    for (const Vector& v : box_.vectors(dist_))
      (padding[static_cast<std::size_t>(v.registers.front())] ? padded : whole).push_back(v);
    const Value first_copy = l_.is_replica_zero(dist_);
    if (!whole.empty()) in_branch(first_copy, whole);
    for (const Vector& v : padded)
      in_branch(l_.and_predicates(first_copy, is_inside(v.registers.front())), {v});
  }

 private:
  static LinearLayout layout_of_copies(Lowering& l, OpId op, const SharedLayout& slot) {
    const OpData& d = l.from[op];
    const int vector = std::min(access_elements(l.from, d), 16 / slot.element_bytes());
    return copy_layout(slot.shape(), contiguous_dim(l.from, d), vector, l.warps());
  }

  std::vector<bool> padded_somewhere() const {
    std::vector<bool> all(static_cast<std::size_t>(dist_.registers()));
    for (int t = 0; t < dist_.rank(); ++t) {
      const std::vector<bool> along = padded_registers(dist_, t);
      for (std::size_t r = 0; r < all.size(); ++r) all[r] = all[r] || along[r];
    }
    return all;
  }

  Value is_inside(int reg) {
    Value all;
    for (int t = 0; t < dist_.rank(); ++t)
      if (const Value inside = inside_along(l_, dist_, t))
        all = l_.and_predicates(
            all,
            l_.b.op(Opcode::Regs, {inside}, {{AttrName::indices, std::vector<std::int64_t>{reg}}}));
    return all;
  }

  void in_branch(Value condition, const std::vector<Vector>& vectors) {
    if (!condition) return copy(vectors);
    l_.when(condition, [&] { copy(vectors); });
  }

  void copy(const std::vector<Vector>& vectors) {
    std::vector<std::pair<int, RegisterOffset>> parts;
    for (const Vector& v : vectors) {
      const auto& first = fn_.registers[static_cast<std::size_t>(v.registers.front())];
      parts.emplace_back(first.slab, first.part);
    }
    const auto access = box_.access(vectors, dist_);
    std::vector<Value> operands{shared_addresses(l_, at_.base, fn_.slabs, parts), access.addresses};
    if (access.predicate) operands.push_back(access.predicate);
    const auto copied =
        static_cast<std::int64_t>(vectors.front().registers.size()) * at_.layout.element_bytes();
    l_.b.create(
        Opcode::CpAsync, operands, std::span<const Type>(),
        attr_list({{AttrName::bytes, copied}, {AttrName::cache, copied == 16 ? "cg" : "ca"}}));
  }

  Lowering& l_;
  SmemSlot at_;
  Box box_;
  LinearLayout dist_;
  SharedFn fn_;
};

}  // namespace

void lower_CopyAsync(Lowering& l, OpId op) {
  l.wait_for_cluster_reads();
  const std::vector<Value> target = access_of(l.from, l.from[op]).target;
  BoxCopies(l, op, slot_of(l, target[0], target[1])).emit();
}

void lower_AsyncCommit(Lowering& l, OpId) { l.b.effect(Opcode::CpAsyncCommit, {}); }
void lower_AsyncWait(Lowering& l, OpId op) {
  l.b.effect(Opcode::CpAsyncWait, {}, {{AttrName::count, l.from[op].attrs.i(AttrName::count)}});
}
void lower_CtaBarrier(Lowering& l, OpId op) {
  // Attr generic_proxy: wgmma and TMA after the barrier read what threads stored before it.
  if (l.from[op].attrs.i(AttrName::generic_proxy) == 1) l.b.effect(Opcode::FenceProxyAsync, {});
  l.barrier();
}

// ---- other kernels of the stream
namespace {

/// Emits the op only for targets with dependent launch: others run a stream's kernels in sequence.
void on_dependent_launch(Lowering& l, Opcode opcode) {
  if (l.from.info.target->has_dependent_launch) l.b.effect(opcode, {});
}

}  // namespace

/// Emits the wait after a pin. Without the pin, ptxas would sink work below the wait that could
/// otherwise overlap the previous kernels.
void lower_GridDependencyWait(Lowering& l, OpId) {
  on_dependent_launch(l, Opcode::Pin);
  on_dependent_launch(l, Opcode::GridDepWait);
}
void lower_GridLaunchDependents(Lowering& l, OpId) {
  on_dependent_launch(l, Opcode::GridDepLaunch);
}

}  // namespace tegula::codegen
