// Software-pipelines a loop with two back-to-back GEMMs: GEMM1 of iteration i - 1 runs next to
// GEMM0 of iteration i.
//
// Before:  for k { s = dot q, K[k]; p = f(s); o = dot p, V[k], g(o) }
// After:   if any { p = f(dot q, K[0]);
//                   for k = 1.. { s = dot_async q, K[k]; o' = dot_async p, V[k-1], o
//                                 wait s; p = f(s); wait o'; o = g(o') }
//                   o = dot p, V[last], o }
// f, the softmax of attention, then overlaps an MMA (FlashAttention-3, 3.2). K and V are rings of
// their own: K's slot is free once s is there, V's one iteration later. The last GEMM1, too, may
// overlap the first GEMM0 of the next tile (epilogue_overlap.cpp).
#include <algorithm>
#include <tuple>
#include <utility>

#include "ir/analysis/index_facts.h"
#include "ir/clone_op.h"
#include "ir/loop.h"
#include "ir/passes/dot_graph/dot_graph.h"
#include "ir/passes/mma_loop/epilogue_overlap.h"
#include "ir/passes/mma_loop/peeled_iteration.h"

namespace tegula::ir {
namespace {

class SkewedBackToBackMma {
 public:
  SkewedBackToBackMma(MmaLoop& l, std::size_t sum, EpilogueOverlap* tiles)
      : l_(l),
        k_(l.k),
        tiles_(tiles),
        c_(sum),
        first_(l.dots[0]),
        second_(l.dots[1]),
        accumulator_starts_at_zero_(accumulator_starts_at_zero()) {}

  void run() {
    if (!tiles_) enter_branch();
    const Value mma1_a_init = peel();
    Builder outside = l_.before(l_.loop);
    const RingPosition now =
                           l_.add_carry(mma0_operands().ring.next(outside, mma0_operands().begin)),
                       before = l_.add_carry(mma1_operands().begin);
    const Value mma1_a = l_.add_carry(l_.loop, mma1_a_init);
    const Value adds = l_.add_carry(l_.loop, outside.flag(!accumulator_starts_at_zero_));
    const Value sum_before = body_carries(k_, l_.loop)[c_];
    Builder head = l_.before(k_[l_.body].first);
    const Value sum =
        head.op(Opcode::Poison, {}, k_.type(sum_before));  // stands for the skewed accumulator
    k_.replace_all_uses(sum_before, sum);
    l_.prefetch_next(head, mma0_operands(), now);
    l_.fill_aux(head);
    l_.prefetch_next(head, mma1_operands(), before);
    const Value late = overlap({sum_before, mma1_a, adds, before}, now);
    finish_skewed_mma(late, sum, mma1_a);
    Builder tail = l_.before(k_.terminator(l_.body));
    const Value later = tail.flag(true);
    mma1_operands().ring.release(tail, before.slot, later);
    const OpId yield = k_.terminator(l_.body);
    k_[yield].operands[c_] = k_[second_].operands[2];
    l_.advance(mma0_operands(), now);
    l_.advance(mma1_operands(), before);
    k_[yield].operands.push_back(k_[second_].operands[0]);
    k_[yield].operands.push_back(later);
    tiles_ ? leave_to_next_tile() : last_product();
    k_.erase(second_);
  }

 private:
  /// Whether the accumulator begins with zeros and is at most scaled in an iteration: the first MMA
  /// need not read it.
  bool accumulator_starts_at_zero() const {
    if (!tiles_ || !is_zero(k_, loop_inits(k_[l_.loop])[c_])) return false;
    const Value begin = body_carries(k_, l_.loop)[c_], acc = k_[second_].operands[2];
    const OpId def = k_[acc].def;
    return acc == begin || (def && k_[def].opcode == Opcode::Mul &&
                            std::ranges::count(k_[def].operands, begin) == 1);
  }

  OperandPipeline& mma0_operands() { return l_.pipelines[0]; }
  OperandPipeline& mma1_operands() { return l_.pipelines[1]; }

  /// Moves the loop into a branch that is taken if it has an iteration; an empty loop returns its
  /// initial values, and the ring positions stay the same.
  void enter_branch() {
    Builder b = l_.before(l_.loop);
    const auto own_inits = loop_inits(k_[l_.loop]);
    std::vector<Value> inits(own_inits.begin(), own_inits.end());
    const std::size_t own = inits.size();
    if (l_.is_nested()) {
      for (const OperandPipeline& pipeline : l_.pipelines)
        inits.insert(inits.end(), {pipeline.begin.slot, pipeline.begin.phase});
      if (l_.has_stationary())
        for (const Value* v : l_.stationary_carries(l_.stationary_position)) inits.push_back(*v);
    }
    std::vector<Type> types;
    for (Value v : inits) types.push_back(k_.type(v));
    const auto& bounds = k_[l_.loop].operands;
    const OpId branch = b.make_if(b.cmp("lt", bounds[0], bounds[1]), types);
    const auto& results = k_[branch].results;
    for (std::size_t i = 0; i < own; ++i) k_.replace_all_uses(k_[l_.loop].results[i], results[i]);
    if (l_.is_nested()) {
      std::size_t next = own;
      for (OperandPipeline& pipeline : l_.pipelines) {
        pipeline.end = {results[next], results[next + 1]};
        next += 2;
      }
      if (l_.has_stationary()) {
        l_.stationary_end = l_.stationary_position;
        for (Value* v : l_.stationary_carries(l_.stationary_end)) *v = results[next++];
      }
    }
    l_.end_aux(branch);
    k_.unlink(l_.loop);
    k_.append(k_[branch].regions[0], l_.loop);
    Builder otherwise(k_, k_[branch].regions[1]);
    otherwise.loc = b.loc;
    otherwise.yield(inits);
  }

  /// Peels the first iteration without its GEMM1; the loop then starts at iteration 1. Returns
  /// operand A of that GEMM1.
  Value peel() {
    const OpId loop = l_.loop;
    Builder b = l_.before(loop);
    mma0_operands().ring.wait(b, mma0_operands().begin);
    l_.wait_stationary(b);
    ValueMap map{{k_[l_.body].args[0], k_[loop].operands[0]}};
    for (std::size_t i = 0; i < loop_inits(k_[loop]).size(); ++i)
      map[body_carries(k_, loop)[i]] = loop_inits(k_[loop])[i];
    const OpId yield = k_.terminator(l_.body);
    PeeledIteration first_step(k_, loop);
    Value before;  // the pending accumulator of the previous tile
    std::vector<OpId> behind_it;
    for (OpId op : k_.ops(l_.body)) {
      if (op == yield || op == second_ || l_.is_load(op) || first_step.enter(op, map)) continue;
      if (op == first_)
        before = peeled_mma0(b, map);
      else if (tiles_ && makes_fragments(op))
        behind_it.push_back(op);
      else
        clone_op(b, op, map);
    }
    Value accumulator;  // the accumulator of the previous tile
    if (tiles_) {
      accumulator = wait_for_previous_tile(b, before);
      for (OpId op : behind_it) clone_op(b, op, map);
      tiles_->finish_previous_tile(b, accumulator);
    }
    for (std::size_t i = 0; i < k_[yield].operands.size(); ++i)
      if (i != c_) loop_inits(k_[loop])[i] = mapped(map, k_[yield].operands[i]);
    loop_inits(k_[loop])[c_] = initial_accumulator(map, accumulator);
    const Value next = b.add(k_[loop].operands[0], k_[loop].operands[2]);
    k_[loop].operands[0] = next;
    const Value mma1_a = mapped(map, k_[second_].operands[0]);
    first_step.drop();
    return mma1_a;
  }

  /// An accumulator that is not read may hold anything; the previous tile's is in the registers
  /// that this tile's takes.
  Value initial_accumulator(const ValueMap& map, Value of_previous_tile) const {
    return accumulator_starts_at_zero_ ? of_previous_tile : mapped(map, k_[second_].operands[2]);
  }

  /// Issues GEMM0 of the first iteration; returns the accumulator of the previous tile if MMAs
  /// overlap across tiles.
  Value peeled_mma0(Builder& b, ValueMap& map) {
    const Value acc = mapped(map, k_[first_].operands[2]), a = mapped(map, k_[first_].operands[0]);
    const RingPosition at = mma0_operands().begin;
    Value mma0, before;
    if (tiles_) {
      const SkewedCarries late{tiles_->sum(), tiles_->mma1_a(), tiles_->adds(),
                               tiles_->mma1_position()};
      std::tie(mma0, before) = issue_both(b, acc, a, at, late);
    } else {
      mma0 = l_.complete(b, first_, acc, a, at);
    }
    map[k_[first_].results[0]] = mma0;
    mma0_operands().ring.release(b, at.slot, b.flag(true));
    release_stationary_after(b, k_[l_.loop].operands[0]);
    return before;
  }

  Value wait_for_previous_tile(Builder& b, Value pending) {
    b.effect(Opcode::Pin, {});
    const Value accumulator =
        MmaLoop::wait(b, pending, k_.type(k_[second_].results[0]), 0, tiles_->mma1_a());
    mma1_operands().ring.release(b, tiles_->mma1_position().slot, tiles_->exists());
    return accumulator;
  }

  /// Releases stationary operands of mma0 after its last iteration, long before the loop ends.
  void release_stationary_after(Builder& b, Value step) {
    const auto& bounds = k_[l_.loop].operands;
    l_.release_stationary(b, b.cmp("ge", b.add(step, bounds[2]), bounds[1]));
  }

  /// Operands of the skewed MMA, whether it adds to its accumulator, and its position in the ring.
  struct SkewedCarries {
    Value sum, mma1_a, adds;
    RingPosition at;
  };
  /// Issues both MMAs; returns the result of GEMM0 and the pending accumulator of GEMM1.
  std::pair<Value, Value> issue_both(Builder& b, Value acc, Value a, RingPosition now,
                                     const SkewedCarries& late) {
    const bool fresh = is_zero(k_, acc);
    const Type type = k_.type(acc);
    const Value begin = fresh ? b.op(Opcode::Poison, {}, type) : acc;
    if (l_.uses_warp_scheduler_barrier()) b.effect(Opcode::OrderWait, {});
    const Value mma0 = l_.issue(b, first_, begin, a, b.flag(!fresh), now);
    mma1_operands().ring.wait(b, late.at);
    const Value sum = l_.issue(b, second_, late.sum, late.mma1_a, late.adds, late.at);
    if (l_.uses_warp_scheduler_barrier()) b.effect(Opcode::OrderArrive, {});
    std::vector<Value> in_registers;
    if (!l_.load_of(a)) in_registers.push_back(a);
    const Type types[] = {type, k_.type(sum)};
    const std::vector<Value> done =
        MmaLoop::wait(b, {mma0, sum}, types, 1, std::move(in_registers));
    return {done[0], done[1]};
  }

  /// Issues the MMAs of an iteration; returns the pending accumulator of GEMM1, while GEMM0 is
  /// complete.
  Value overlap(const SkewedCarries& late, RingPosition now) {
    Builder b = l_.before(first_);
    b.loc = k_[first_].loc;
    mma0_operands().ring.wait(b, now);
    const auto [mma0, pending] =
        issue_both(b, k_[first_].operands[2], k_[first_].operands[0], now, late);
    mma0_operands().ring.release(b, now.slot, b.flag(true));
    release_stationary_after(b, k_[l_.body].args[0]);
    k_.replace_all_uses(k_[first_].results[0], mma0);
    k_.erase(first_);
    return pending;
  }

  /// Whether the op converts GEMM1's A or zeroes its absent elements: such ops must not write the
  /// registers of fragments while the previous MMA may read them (ptxas: C7513), so they come late.
  /// Other uses of their operands are not affected.
  bool makes_fragments(OpId op) const {
    for (OpId at = k_[k_[second_].operands[0]].def; at && k_[at].parent == l_.body;) {
      const Opcode o = k_[at].opcode;
      if (o != Opcode::Cast && o != Opcode::ConvertLayout && o != Opcode::Select) return false;
      if (l_.uses(k_[at].results[0]) != 1) return false;
      if (at == op) return true;
      at = k_[k_[at].operands[o == Opcode::Select ? 1 : 0]].def;
    }
    return false;
  }

  /// Waits for the skewed accumulator after all ops that do not depend on it. `stand_in` is the
  /// value that its users name.
  void finish_skewed_mma(Value late, Value stand_in, Value mma1_a) {
    const OpId yield = k_.terminator(l_.body);
    const std::unordered_set<OpId> late_ops = l_.dependents(stand_in);
    std::vector<OpId> users;
    for (OpId op : k_.ops(l_.body))
      if (op != yield && op != second_ && op != k_[stand_in].def &&
          (late_ops.contains(op) || makes_fragments(op)))
        users.push_back(op);
    Builder b = l_.before(yield);
    b.effect(Opcode::Pin, {});
    const Value sum = MmaLoop::wait(b, late, k_.type(stand_in), 0, mma1_a);
    for (OpId op : users) {
      k_.unlink(op);
      k_.insert_before(yield, op);
    }
    k_.replace_all_uses(stand_in, sum);
    k_.erase(k_[stand_in].def);
  }

  /// State after the loop: ring positions, and the operands of the last mma1.
  struct TileRemainder {
    std::size_t own;  ///< number of results before these
    RingPosition mma0_position, mma1_position;
    Value sum, mma1_a, adds;
  };
  TileRemainder left() const {
    const auto& r = k_[l_.loop].results;
    const std::size_t own = r.size() - 6;
    return {own, {r[own], r[own + 1]}, {r[own + 2], r[own + 3]}, r[c_], r[own + 4], r[own + 5]};
  }

  /// After the loop: leaves the last GEMM1 to the next tile.
  void leave_to_next_tile() {
    const TileRemainder last = left();
    mma0_operands().end = last.mma0_position;
    mma1_operands().end = last.mma1_position;
    l_.end_aux(l_.loop);
    Builder b = l_.before(k_.terminator(k_[l_.loop].parent));
    l_.stationary_end = l_.next_stationary(b, b.flag(true));
    tiles_->leave(last.mma1_a, last.adds);
  }

  /// After the loop: issues the last GEMM1 and ends the branch.
  void last_product() {
    const TileRemainder last = left();
    const auto& results = k_[l_.loop].results;
    std::vector<Value> yielded(results.begin(), results.begin() + static_cast<int>(last.own));
    Builder b(k_, k_[l_.loop].parent);
    b.loc = k_[second_].loc;
    mma1_operands().ring.wait(b, last.mma1_position);
    const Value pending =
        l_.issue(b, second_, last.sum, last.mma1_a, last.adds, last.mma1_position);
    yielded[c_] = MmaLoop::wait(b, pending, k_.type(last.sum), 0, last.mma1_a);
    mma1_operands().ring.release(b, last.mma1_position.slot, b.flag(true));
    l_.sync_before_reuse(b);
    if (l_.is_nested()) {
      const RingPosition mma1_end = mma1_operands().ring.next(b, last.mma1_position);
      yielded.insert(yielded.end(), {last.mma0_position.slot, last.mma0_position.phase,
                                     mma1_end.slot, mma1_end.phase});
      if (l_.has_stationary()) {
        const RingPosition next = l_.next_stationary(b, b.flag(true));
        for (const Value* v : l_.stationary_carries(next)) yielded.push_back(*v);
      }
    }
    b.yield(yielded);
  }

  MmaLoop& l_;
  Kernel& k_;
  EpilogueOverlap* tiles_;  ///< or none
  std::size_t c_;           ///< index of GEMM1's accumulator among the carries
  OpId first_, second_;
  bool accumulator_starts_at_zero_;
};

}  // namespace

std::optional<std::size_t> skewed_accumulator(const MmaLoop& l) {
  if (l.dots.size() != 2 || has_inner_mma(l.k, l.loop)) return std::nullopt;
  const Kernel& k = l.k;
  const Value sum = k[l.dots[1]].results[0];
  if (l.uses(sum) != 1 || l.load_of(k[l.dots[1]].operands[0])) return std::nullopt;
  // A slot that both MMAs read is free only after the skewed one.
  if (l.load_of(k[l.dots[1]].operands[1])->dots.size() > 1) return std::nullopt;
  const OpId yield = k.terminator(l.body);
  for (std::size_t i = 0; i < k[yield].operands.size(); ++i)
    if (k[yield].operands[i] == sum &&
        !l.dependents(body_carries(k, l.loop)[i]).contains(l.dots[0]))
      return i;
  return std::nullopt;
}

void skew_back_to_back_mma(MmaLoop& loop, std::size_t sum, EpilogueOverlap* tiles) {
  SkewedBackToBackMma(loop, sum, tiles).run();
}

}  // namespace tegula::ir
