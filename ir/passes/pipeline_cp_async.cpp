// Turns operand loads of matrix products in a loop into rings of asynchronous copies.
//
// Before:  for k { t = load_view V[.., k]; a = convert_layout t; .. dot a .. }
// After:   ring of `stages` slots; the first stages-1 steps are copied ahead; then
//          for k, slot { async_wait stages-2; cta_barrier; a = smem_load ring[slot]; .. dot a ..;
//          copy step k + stages-1 into the slot that the barrier proved free; async_commit }
// Steps past the end copy nothing but still commit, so that the count of the wait stays valid. A
// dot with an operand from a ring is split along k, so that few fragments are live at a time: a
// smem_load whose users are slices is read slice by slice.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/erase_unused.h"
#include "ir/loop.h"
#include "ir/matrix_type.h"
#include "ir/passes/layouts/slice_layout.h"
#include "ir/passes/mma_loop/async_copies.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

class LoopPipeliner {
 public:
  LoopPipeliner(Kernel& k, OpId loop, const Plan& plan, PassContext& context)
      : k_(k),
        loop_(loop),
        stages_(std::max(2, plan.stages)),
        context_(context),
        body_(k[loop].regions[0]) {}

  bool run() {
    std::vector<OperandLoad> loads = operand_loads(k_, loop_, context_);
    std::erase_if(loads, [&](const auto& c) { return !is_aligned(c); });
    if (loads.empty()) return false;
    if (writes_memory(k_, loop_)) {
      context_.remark(Remark::Kind::Missed, k_[loop_].loc, "not pipelined: the loop writes memory");
      return false;
    }
    copies_.emplace(k_, loop_, stages_, std::move(loads));
    Builder b = before(loop_);
    copies_->allocate(b, context_);
    b.loc = k_[loop_].loc;
    copies_->prologue(b, stages_ - 1);
    rewrite_body();
    return true;
  }

 private:
  bool is_aligned(const OperandLoad& c) {
    const int bytes = access_bytes(k_, c.load);
    if (bytes >= kMinCpAsyncBytes) return true;
    context_.remark(Remark::Kind::Missed, k_[c.load].loc,
                    "not pipelined: rows are not aligned for cp.async",
                    {{"bytes", fmt::format("{}", bytes)}});
    return false;
  }

  // ---- rewriting
  Builder before(OpId op) {
    Builder b(k_, op);
    b.loc = k_[loop_].loc;
    return b;
  }

  void rewrite_body() {
    // The loop carries the slot to read; it is never derived from the induction variable.
    const Value slot = add_carry(k_, loop_, before(loop_).i32(0));
    Builder head = before(k_[body_].first);
    head.effect(Opcode::AsyncWait, {}, {{AttrName::count, stages_ - 2}});
    head.effect(Opcode::CtaBarrier, {});
    // Fill the slot before the current one, which the barrier has just proved free.
    copies_->copy_ahead(head, k_[body_].args[0], stages_ - 1, copies_->back(head, slot, 1));
    for (const OperandLoad& c : copies_->loads()) read_slot(c, slot);
    erase_slices();
    cut_dots();
    const OpId yield = k_.terminator(body_);
    Builder tail = before(yield);
    // First, because creating ops moves existing ones.
    const Value next = copies_->next(tail, slot);
    k_[yield].operands.push_back(next);
    drain();
  }

  void read_slot(const OperandLoad& c, Value slot) {
    Builder b = before(c.convert);
    b.loc = k_[c.load].loc;
    const Value loaded = b.op(Opcode::SmemLoad, {c.ring, slot}, k_.type(k_[c.convert].results[0]));
    k_.replace_all_uses(k_[c.convert].results[0], loaded);
    erase_load(k_, c);
  }

  /// Erases index tiles that only the copies needed, which compute them ahead.
  void erase_slices() {
    std::vector<OpId> slices;
    for (const OpId op : k_.ops(body_))
      if (std::ranges::any_of(copies_->loads(), [&](const OperandLoad& load) {
            return load.lines && load.offset_ops.contains(op);
          }))
        slices.push_back(op);
    erase_unused(k_, std::move(slices));
  }

  /// The next loop (or the next run of this one) uses the slots again, so all reads must be
  /// complete.
  void drain() {
    Builder b = Builder::after(k_, loop_);
    b.effect(Opcode::AsyncWait, {}, {{AttrName::count, 0}});
    b.effect(Opcode::CtaBarrier, {});
  }

  // ---- cutting along k
  void cut_dots() {
    std::vector<OpId> dots;
    for (OpId op : k_.ops(body_))
      if (k_[op].opcode == Opcode::Dot) dots.push_back(op);
    for (OpId dot : dots) cut(dot);
  }

  bool is_ring_read(Value v) const {
    const OpId def = k_[v].def;
    return def && k_[def].opcode == Opcode::SmemLoad;
  }

  void cut(OpId dot) {
    const Type a = k_.type(k_[dot].operands[0]), bt = k_.type(k_[dot].operands[1]);
    const MatrixType* type = matrix_type(k_, k_[dot]);
    const std::int64_t k_extent = a.shape()[1], step = type ? type->step() : 8;
    const bool from_ring = is_ring_read(k_[dot].operands[0]) || is_ring_read(k_[dot].operands[1]);
    if (!from_ring || k_extent <= step || k_extent % step != 0 || !sliceable(a, 1, step) ||
        !sliceable(bt, 0, step))
      return;
    Builder b = before(dot);
    b.loc = k_[dot].loc;
    Value acc = k_[dot].operands[2];
    const Value whole_a = k_[dot].operands[0], whole_b = k_[dot].operands[1];
    for (std::int64_t begin = 0; begin < k_extent; begin += step) {
      const Value as = tile_slice(b, whole_a, 1, begin, step),
                  bs = tile_slice(b, whole_b, 0, begin, step);
      acc = k_[b.create(Opcode::Dot, std::vector<Value>{as, bs, acc},
                        std::vector<Type>{k_.type(acc)}, k_[dot].attrs)]
                .results[0];
    }
    k_.replace_all_uses(k_[dot].results[0], acc);
    k_.erase(dot);
  }

  static bool sliceable(Type t, int dim, std::int64_t extent) {
    return slice_layout(t, dim, 0, extent).has_value();
  }

  Kernel& k_;
  OpId loop_;
  int stages_;
  PassContext& context_;
  RegionId body_;
  std::optional<AsyncCopies> copies_;
};

}  // namespace

bool pipeline_cp_async(Kernel& kernel, PassContext& context) {
  const Plan plan = context.plan.value_or(Plan{});
  if (plan.stages < 2) return false;
  bool changed = false;
  for (OpId loop : loops_of(kernel)) changed |= LoopPipeliner(kernel, loop, plan, context).run();
  return changed;
}

}  // namespace tegula::ir
