// Before, in machine form (attention backward, shortened):
//     for i { q = load_view Q[i]; s = dot k, permute q, 0; ds = f(s); dv = dot ds, q, dv;
//             dq = dot (permute ds), k, 0; store_view dQ[i], dq }
// After, all in stage 0:
//     for i, slot, phase, turn {
//       the producer thread loads iteration i + stages - 1
//       channel_wait slot, phase; s' = dot_async k, ring_q[slot] (trans_b)
//       s = dot_wait 0; ds = f(s); smem_store buffer[turn], ds; cta_barrier (generic_proxy)
//       dq' = dot_async buffer[turn] (trans_a), k; dv' = dot_async buffer[turn], ring_q[slot]
//       dq = dot_wait 1; store_view dQ[i], dq; dv = dot_wait 0; channel_release slot
//     }
// With ops of stage 1, which run one iteration late:
//     if any { the first step, without stage 1; for the other iterations { a step }; stage 1 }
// In a persistent kernel, stage 1 of a tile's last iteration may run in the first step of the next
// tile instead (epilogue_overlap.h).
//
// Waits, releases and barriers follow from the order. A wait is inserted where an op needs a result
// that is in flight; it leaves the dots that were issued later in flight. A slot is released after
// the wait that retires its last reader. A barrier separates the store of a tile from the first dot
// that reads it. Only accumulators that nothing else reads may be in flight from one step to the
// next: the wait after the next step's dots retires them.
#include <algorithm>

#include "ir/analysis/facts.h"
#include "ir/analysis/index_facts.h"
#include "ir/erase_unused.h"
#include "ir/loop.h"
#include "ir/passes/dot_graph/expansion.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

/// Returns the ops `select(iv == lo, a, b)` of the loop's body: a in the first iteration, b in all
/// others.
std::unordered_set<OpId> first_iteration_choices(const Kernel& k, OpId loop) {
  using enum Opcode;
  const RegionId body = k[loop].regions[0];
  const auto bounds = {k[body].args[0], k[loop].operands[0]};
  std::unordered_set<Value> conditions;  // true in the first iteration, in no other
  std::unordered_set<OpId> selects;
  for (OpId op : k.ops(body)) {
    const OpData& d = k[op];
    const bool asks = d.opcode == Cmp && d.attrs.s(AttrName::pred) == "eq" &&
                      std::ranges::is_permutation(d.operands, bounds);
    const bool repeats = d.is(Splat, Broadcast, ExpandDims, ConvertLayout);
    if (asks || (repeats && conditions.contains(d.operands[0]))) conditions.insert(d.results[0]);
    if (d.opcode == Select && conditions.contains(d.operands[0])) selects.insert(op);
  }
  return selects;
}

}  // namespace

std::unordered_set<OpId> Expansion::run(PassContext& context) {
  // The slot that is being filled must not be read by dots in flight. With three slots and another
  // CTA that multiplies meanwhile, copies two steps ahead are worth more than dots that stay in
  // flight.
  const bool are_paired = !graph_.has_channels() && plan_.min_ctas_per_sm > 1;
  if (!has_gathers() || gathers_.slots() > kSlotsInUse + (are_paired ? 1 : 0)) {
    accumulators_ = pending_accumulators(k_, graph_, order_);
    stay_in_flight_ = !accumulators_.empty() && stay_in_flight(graph_, order_);
    if (stay_in_flight_) lasting_ = accumulators_.size();
    if (accumulators_.empty()) {
      accumulators_ = trailing_accumulators(k_, graph_, order_);
      lasting_ = accumulators_.size();
    }
  }
  const Uses uses(k_);
  for (const GraphDot& dot : graph_.dots)
    if (const OpId before = k_[k_[dot.op].operands[2]].def;
        before && graph_.find(before) && uses.count(k_[before].results[0]) == 1)
      chained_.insert(before);
  for (const GraphDot& dot : graph_.dots)
    context.remark(Remark::Kind::Applied, k_[dot.op].loc, "dot by wgmma",
                   {{"sum", k_.type(k_[dot.op].results[0]).with_layout(nullptr).str()},
                    {"a", name(dot.operands[0])},
                    {"b", name(dot.operands[1])},
                    {"overlapped", is_lasting(dot.op) || order_.stage(dot.op) > 0 ? "1" : "0"}});
  if (order_.last_stage > 0 && l_.is_nested()) early_stationary_ = readers_of_stationary();
  l_.allocate(ring_uses(k_, graph_, order_), graph_.stationary);
  for (OperandPipeline& use : l_.pipelines)
    for (const OperandLoad& load : use.ring.loads()) ring_of_[load.load] = &use;
  if (order_.section.first) {
    l_.before_all().effect(Opcode::OrderInit, {});
    Builder(k_, k_.body()).effect(Opcode::OrderDrain, {});
  }
  begin_overlap();
  for (OperandPipeline& use : l_.pipelines) use.position = use.begin;
  stored_.allocate(l_, order_, plan_.stages);
  l_.fill_prologue(order_.last_stage);
  begin_gathers(context);
  place_invariants();
  if (order_.last_stage > 0) choices_ = first_iteration_choices(k_, old_);
  order_.last_stage == 0 ? in_step() : skewed();
  // The next iteration of an outer loop overwrites what warpgroups may still read.
  Builder b = l_.before(old_);
  if (l_.is_nested() && (!stored_.empty() || has_gathers())) b.effect(Opcode::CtaBarrier, {});
  // Later code may use the rings' memory, unless a further iteration fills them.
  if (!l_.is_nested()) b.effect(Opcode::CtaBarrier, {});
  erase_old();
  l_.finish();
  if (tiles_) tiles_->close();
  for (Value v : unused_) erase_unused(k_, v);
  std::unordered_set<OpId> lasting;
  for (const PendingAccumulator& acc : accumulators_)
    if (is_lasting(acc.dot)) lasting.insert(acc.dot);
  return lasting;
}

std::unordered_set<OpId> Expansion::readers_of_stationary() const {
  std::unordered_set<OpId> found;
  const auto is_stationary = [](const DotOperand& operand) {
    return operand.form == OperandForm::Stationary;
  };
  for (const GraphDot& dot : graph_.dots) {
    if (std::ranges::none_of(dot.operands, is_stationary)) continue;
    if (order_.stage(dot.op) > 0) return {};
    found.insert(dot.op);
  }
  return found;
}

void Expansion::begin_gathers(PassContext& context) {
  if (!has_gathers()) return;
  Builder all = l_.before_all(), b = l_.before(old_);
  gathers_.allocate(all, context);
  gathers_.prologue(b, gather_lead());
  entries_ = gathers_.read_entries(b, k_[old_].operands[0], gather_lead());
  gather_slot_ = b.i32(0);
}

/// Places what waits for operands that threads load before the loop after the first copies by
/// cp.async: the loads are then in flight together.
void Expansion::place_invariants() {
  const Uses uses(k_);
  const auto is_in_loop = [&](const Uses::Use& use) {
    return k_[use.op].parent == k_[old_].regions[0];
  };
  for (const GraphDot& dot : graph_.dots) {
    const Value a = k_[dot.op].operands[0];
    const OpId convert = k_[a].def;
    const bool may_move = dot.a().form == OperandForm::Register && convert &&
                          k_[convert].opcode == Opcode::ConvertLayout &&
                          k_[convert].parent == k_[old_].parent &&
                          std::ranges::all_of(uses.of(a), is_in_loop);
    if (!may_move || !has_gathers()) continue;
    k_.unlink(convert);
    k_.insert_before(old_, convert);
  }
  Builder b = l_.before(old_);
  stored_.store_invariants(b, has_gathers());
}

void Expansion::in_step() {
  for (PendingAccumulator& acc : accumulators_) {
    const Type pending = Type::pending(k_.type(acc.init));
    values_.begin_with(body_carries(k_, old_)[acc.carry],
                       l_.before(old_).op(Opcode::Poison, {}, pending));
  }
  const Value first = k_[old_].operands[0], last = k_[old_].operands[1];
  build_loop(first);
  const bool always = Facts(k_).is_less(first, last, old_);
  Builder b = l_.before(old_);
  for (OperandPipeline& use : l_.pipelines) use.end = use.position;
  if (l_.is_skipped_by_other_warpgroup())
    for (OperandPipeline& p : l_.pipelines) p.end = l_.end_position(b, p);
  if (always) k_[l_.loop].attrs.set(AttrName::has_trip, std::int64_t{1});
  const Value runs = always ? b.flag(true) : b.cmp("lt", first, last);
  std::vector<Value> results;
  for (std::size_t i = 0; i < k_[old_].results.size(); ++i) results.push_back(values_.result(i));
  finish_accumulators(b, runs, always, results);
  l_.release_stationary(b, runs);
  l_.end_stationary(b, runs);
  replace_results(results);
}

void Expansion::finish_accumulators(Builder& b, Value runs, bool always,
                                    std::vector<Value>& results) {
  if (accumulators_.empty()) return;
  std::vector<Value> pending;
  std::vector<Type> types;
  for (const PendingAccumulator& acc : accumulators_) {
    pending.push_back(results[acc.carry]);
    types.push_back(k_.type(acc.init));
  }
  const std::vector<Value> done = MmaLoop::wait(b, pending, types, 0);
  for (const OperandPipeline& use : l_.pipelines)
    if (is_late(use)) use.ring.release(b, use.ring.back(b, use.end, 1).slot, runs, use.has_threads);
  for (std::size_t i = 0; i < done.size(); ++i)
    results[accumulators_[i].carry] =
        always ? done[i] : b.select(runs, done[i], accumulators_[i].init);
}

void Expansion::skewed() {
  const Value first = k_[old_].operands[0], last = k_[old_].operands[1];
  const bool always = Facts(k_).is_less(first, last, old_);
  const OpId branch = always ? OpId() : enter_branch();
  tiles_ ? step_overlapping_last_tile(first) : first_step(first);
  Builder b = here();
  for (OperandPipeline& use : l_.pipelines)
    use.position = use.first_stage == 0 ? use.ring.next(b, use.position) : use.begin;
  stored_.next_turn(b);
  Builder at_loop = here();
  build_loop(l_.second_index(at_loop));
  if (tiles_) return leave_to_next_tile();
  step(1, 1, {}, false);
  Builder tail = here();
  for (OperandPipeline& use : l_.pipelines)
    use.end = use.first_stage == 0 ? use.position : use.ring.next(tail, use.position);
  const Value yes = tail.flag(true);
  if (early_stationary_.empty()) l_.release_stationary(tail, yes);
  l_.end_stationary(tail, yes);
  std::vector<Value> results = loop_results();
  if (branch) results = leave_branch(branch, std::move(results));
  replace_results(results);
}

void Expansion::begin_overlap() {
  if (!plan_.overlap_epilogue || !only_late_dot()) return;
  auto tiles = EpilogueOverlap::of(l_);
  if (!tiles) return;
  tiles_.emplace(std::move(*tiles));
  std::vector<Type> types = values_.carried_types();
  types.push_back(Type::scalar(DType::i1));
  tiles_->enter(types, *late_pipeline());
}

OpId Expansion::only_late_dot() const {
  std::vector<OpId> late;
  for (const ScheduledOp& scheduled : order_.ops)
    if (scheduled.stage > 0) late.push_back(scheduled.op);
  const auto is_read_late = [](const OperandPipeline& use) { return use.last_stage > 0; };
  const bool has_own_ring =
      std::ranges::count_if(l_.pipelines, is_read_late) == 1 && late_pipeline();
  return late.size() == 1 && graph_.find(late.front()) && has_own_ring && graph_.shared.empty()
             ? late.front()
             : OpId();
}

void Expansion::read_late_from(std::span<const Value> state, RingPosition position) {
  values_.read_late_from(state);
  adds_ = state.back();
  for (OperandPipeline& use : l_.pipelines)
    if (use.first_stage > 0) use.position = position;
}

void Expansion::step_overlapping_last_tile(Value first) {
  read_late_from(tiles_->state(), tiles_->position());
  exists_ = tiles_->exists();
  step(0, 1, first, false);
  exists_ = {};
  const OpId late = only_late_dot();
  const Value sum = k_[late].results[0], acc = k_[late].operands[2];
  std::vector<Value> next = values_.next();
  values_.take(tiles_->state());
  values_.define(sum, 1, late_sum_);
  Builder b = here();
  tiles_->finish_last_tile(b, loop_results());
  values_.take(next);
  // An accumulator that is not read may contain anything, such as the registers of the previous
  // tile.
  const bool is_zero = accumulator_starts_at_zero(late);
  if (is_zero)
    values_.begin_with(acc, late_sum_);
  else if (const auto carry = std::ranges::find(body_carries(k_, old_), acc);
           carry != body_carries(k_, old_).end())
    values_.begin_with(
        acc,
        loop_inits(k_[old_])[static_cast<std::size_t>(carry - body_carries(k_, old_).begin())]);
  adds_ = b.flag(!is_zero);
}

bool Expansion::accumulator_starts_at_zero(OpId dot) const {
  const Value acc = k_[dot].operands[2], sum = k_[dot].results[0];
  const auto nexts = loop_nexts(std::as_const(k_), old_);
  const auto i = static_cast<std::size_t>(std::ranges::find(nexts, sum) - nexts.begin());
  if (i == nexts.size() || !::tegula::ir::is_zero(k_, loop_inits(k_[old_])[i])) return false;
  const Value begin = body_carries(k_, old_)[i];
  const OpId def = k_[acc].def;
  return acc == begin ||
         (def && k_[def].opcode == Opcode::Mul && std::ranges::count(k_[def].operands, begin) == 1);
}

void Expansion::leave_to_next_tile() {
  for (OperandPipeline& use : l_.pipelines) use.end = use.position;
  Builder tail = l_.before(k_.terminator(k_[l_.loop].parent));
  l_.end_stationary(tail, tail.flag(true));
  std::vector<Value> state = values_.carried();
  state.push_back(adds_);
  anchor_ = tiles_->leave(std::move(state));
  values_.take(tiles_->very_last_state());
  read_late_from(tiles_->very_last_state(), tiles_->very_last_position());
  is_very_last_ = true;  // nothing waits for its slots
  step(1, 1, {}, false);
  Builder b = here();
  tiles_->finish_very_last_tile(b, loop_results());
}

OpId Expansion::enter_branch() {
  Builder b = l_.before(old_);
  const auto inits = loop_inits(k_[old_]);
  std::vector<Value> otherwise(inits.begin(), inits.end());
  for (OperandPipeline* p : l_.all()) p->end = p->begin;
  for (const Value* v : ends()) otherwise.push_back(*v);
  std::vector<Type> types;
  for (Value v : otherwise) types.push_back(k_.type(v));
  const auto& bounds = k_[old_].operands;
  const OpId branch = b.make_if(b.cmp("lt", bounds[0], bounds[1]), types);
  Builder empty(k_, k_[branch].regions[1]), any(k_, k_[branch].regions[0]);
  empty.loc = any.loc = b.loc;
  empty.yield(otherwise);
  anchor_ = any.effect(Opcode::Yield, {});
  return branch;
}

std::vector<Value> Expansion::leave_branch(OpId branch, std::vector<Value> results) {
  const std::size_t own = results.size();
  for (const Value* v : ends()) results.push_back(*v);
  k_[anchor_].operands.assign(results.begin(), results.end());
  const auto& yielded = k_[branch].results;
  std::size_t next = own;
  for (Value* v : ends()) *v = yielded[next++];
  return {yielded.begin(), yielded.begin() + static_cast<std::ptrdiff_t>(own)};
}

void Expansion::build_loop(Value first) {
  Builder b = here();
  std::vector<Value> inits = values_.carried();
  for (const Value* v : positions()) inits.push_back(*v);
  const OpId loop = b.make_for(first, k_[old_].operands[1], k_[old_].operands[2], inits);
  k_[loop].attrs = k_[old_].attrs;
  l_.build(loop);
  const OpId outer = std::exchange(anchor_, Builder(k_, l_.body).effect(Opcode::Yield, {}));
  k_[anchor_].loc = b.loc;
  take(body_carries(k_, loop));
  step(0, order_.last_stage, k_[l_.body].args[0], true);
  Builder tail = here();
  for (OperandPipeline& use : l_.pipelines) use.position = use.ring.next(tail, use.position);
  stored_.next_turn(tail);
  if (gather_slot_) gather_slot_ = gathers_.next(tail, gather_slot_);
  if (adds_) adds_ = tail.flag(true);
  std::vector<Value> next = values_.next();
  for (const Value* v : positions()) next.push_back(*v);
  k_[anchor_].operands.assign(next.begin(), next.end());
  anchor_ = outer;
  take(k_[loop].results);
}

std::vector<Value*> Expansion::positions() {
  std::vector<Value*> all;
  for (OperandPipeline& use : l_.pipelines)
    all.insert(all.end(), {&use.position.slot, &use.position.phase});
  if (stored_.turn) all.push_back(&stored_.turn);
  if (gather_slot_) all.push_back(&gather_slot_);
  for (Value& entry : entries_) all.push_back(&entry);
  if (adds_) all.push_back(&adds_);
  return all;
}

void Expansion::erase_old() {
  std::vector<OpId> unused;
  for (const GraphDot& dot : graph_.dots)
    for (std::size_t i : {0U, 1U})
      for (OpId def = k_[k_[dot.op].operands[i]].def;
           def && k_[def].is(Opcode::Permute, Opcode::ConvertLayout) &&
           k_[def].parent != k_[old_].regions[0];
           def = k_[k_[def].operands[0]].def)
        unused.push_back(def);
  k_.erase(old_);
  erase_unused(k_, std::move(unused));
}

}  // namespace tegula::ir
