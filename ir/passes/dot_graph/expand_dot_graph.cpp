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
// Waits, releases and barriers follow from the order: a wait stands where something needs a result
// that is in flight and leaves what was issued behind it; a slot is released behind the wait that
// retires its last reader; a barrier stands between the store of a tile and the first dot that
// reads it. Only accumulators that nothing else reads may be in flight from one step to the next:
// the wait behind the next step's dots retires them.
#include "ir/passes/dot_graph/expand_dot_graph.h"

#include <algorithm>
#include <ranges>

#include "ir/analysis/index_facts.h"
#include "ir/erase_unused.h"
#include "ir/loop.h"
#include "ir/passes/dot_graph/ring_use.h"
#include "ir/passes/dot_graph/step_values.h"
#include "ir/passes/mma_loop/async_copies.h"

namespace tegula::ir {
namespace {

/// Slots that dots read when those of a step stay in flight over its end: a slot that is filled
/// must be another one.
constexpr int kSlotsInUse = 2;

/// A tile that threads store for the wgmmas of all warpgroups.
struct StoredTile {
  Value tile, buffer;
  int slots = 1;
  bool is_stored = false, is_published = false;  ///< by the step
};

/// A dot that was issued.
struct Running {
  OpId dot;
  Value pending, fragments;  ///< fragments: A in registers, or none
  int stage = 0;
  bool is_of_last_step = false;
  bool is_continued = false;  ///< a later dot adds to its accumulator
};

class Expansion {
 public:
  Expansion(MmaLoop& l, DotGraph graph, LoopOrder order, const Plan& plan)
      : l_(l),
        k_(l.k),
        old_(l.loop),
        graph_(std::move(graph)),
        order_(std::move(order)),
        values_(k_, old_, graph_, order_),
        gathers_(k_, old_, plan.stages, graph_.gathers),
        plan_(plan),
        anchor_(l.loop) {}

  void run(PassContext& context) {
    // A slot to copy rows into is none that dots in flight read.
    if (!has_gathers() || plan_.stages > kSlotsInUse) {
      accumulators_ = pending_accumulators(k_, graph_, order_);
      stay_in_flight_ = stay_in_flight(k_, graph_, order_);
    }
    uses_ = ring_uses(k_, graph_, order_);
    std::vector<RingLoads> rings;
    for (RingUse& use : uses_) {
      for (const OperandLoad& load : use.brings) ring_of_[load.load] = rings.size();
      rings.push_back({use.brings, use.last_stage});
    }
    l_.allocate(std::move(rings), graph_.stationary);
    for (std::size_t i = 0; i < uses_.size(); ++i) uses_[i].at = l_.pipelines[i].begin;
    allocate_stored();
    l_.fill_prologue(order_.last_stage);
    begin_gathers(context);
    order_.last_stage == 0 ? in_step() : skewed();
    // The next iteration of an outer loop stores again what warpgroups may still read.
    Builder b = l_.before(old_);
    if (l_.is_nested() && (!stored_.empty() || has_gathers())) b.effect(Opcode::CtaBarrier, {});
    l_.sync_before_reuse(b);
    erase_old();
    l_.finish();
  }

 private:
  bool has_accumulator(OpId dot) const {
    return std::ranges::find(accumulators_, dot, &PendingAccumulator::dot) != accumulators_.end();
  }

  // ---- rings
  const OperandLoad* ring_load(Value tile) const { return graph_.ring_load(k_, tile); }
  /// Its slots are free one step later than their last reader was issued.
  bool is_late(const RingUse& use) const { return stay_in_flight_ && !use.dots.empty(); }
  RingPosition position(Builder& b, std::size_t ring, int stage) const {
    const RingUse& use = uses_[ring];
    return stage == use.first_stage
               ? use.at
               : l_.pipelines[ring].ring.back(b, use.at, stage - use.first_stage);
  }
  Value ring(OpId load) const {
    for (const OperandPipeline& p : l_.pipelines)
      for (const OperandLoad& l : p.ring.loads())
        if (l.load == load) return l.ring;
    return l_.stationary_ring(load);
  }

  // ---- rows that threads copy
  bool has_gathers() const { return !gathers_.loads().empty(); }
  /// Iterations that are copied ahead. Behind the barrier of a step, all warpgroups have retired
  /// the dots of the step before, or of the one before that if dots stay in flight.
  int gather_lead() const { return plan_.stages - (stay_in_flight_ ? kSlotsInUse : 1); }

  void begin_gathers(PassContext& context) {
    if (!has_gathers()) return;
    Builder all = l_.before_all(), b = l_.before(old_);
    gathers_.allocate(all, context);
    gathers_.prologue(b, gather_lead());
    gather_slot_ = b.i32(0);
  }

  /// The rows of the step have arrived, those of the slot to fill next have been read.
  void meet_for_gathers(Builder& b) {
    b.effect(Opcode::AsyncWait, {}, {{AttrName::count, gather_lead() - 1}});
    b.effect(Opcode::CtaBarrier, {}, {{AttrName::generic_proxy, 1}});
    have_met_ = !stay_in_flight_;
    has_copied_ = false;
    if (!stay_in_flight_) copy_ahead();
  }

  /// Dots that are in flight run beside it.
  void copy_ahead() {
    if (!has_gathers() || std::exchange(has_copied_, true)) return;
    Builder b = here();
    const int freed = plan_.stages - gather_lead();
    gathers_.copy_ahead(b, k_[l_.body].args[0], gather_lead(),
                        gathers_.back(b, gather_slot_, freed));
  }

  void allocate_stored() {
    Builder b = l_.before_all();
    int slots = graph_.first_shared_slots(k_, plan_.stages);
    for (const ScheduledOp& at : order_.ops)
      for (Value v : k_[at.op].results)
        if (std::ranges::find(graph_.shared, v) != graph_.shared.end())
          add_stored(b, v, std::exchange(slots, 1));
    for (Value v : graph_.shared)  // carried by the loop
      if (!k_[v].def) add_stored(b, v, 1);
    if (std::ranges::any_of(stored_, [](auto& s) { return s.slots == 2; }))
      turn_ = l_.before(old_).i32(0);
  }
  void add_stored(Builder& b, Value tile, int slots) {
    const OpId def = k_[tile].def;
    b.loc = k_[def ? def : old_].loc;
    const Value buffer = b.op(Opcode::SmemAlloc, {}, stored_type(k_.type(tile), slots));
    stored_.push_back({tile, buffer, slots});
  }

  // ---- the loop
  void in_step() {
    for (PendingAccumulator& acc : accumulators_) {
      const Type pending = Type::pending(k_.type(acc.init));
      values_.make_pending(body_carries(k_, old_)[acc.carry],
                           l_.before(old_).op(Opcode::Poison, {}, pending));
    }
    const Value first = k_[old_].operands[0], last = k_[old_].operands[1];
    build_loop(first);
    const bool always = IndexFacts(k_).is_less(first, last);
    Builder b = l_.before(old_);
    for (std::size_t i = 0; i < uses_.size(); ++i) l_.pipelines[i].end = uses_[i].at;
    if (l_.is_skipped_by_other_warpgroup())
      for (OperandPipeline& p : l_.pipelines) p.end = l_.end_position(b, p);
    if (always) k_[l_.loop].attrs.set(AttrName::has_trip, std::int64_t{1});
    const Value runs = always ? b.flag(true) : b.cmp("lt", first, last);
    std::vector<Value> results;
    for (std::size_t i = 0; i < k_[old_].results.size(); ++i) results.push_back(values_.result(i));
    finish_accumulators(b, runs, always, results);
    l_.release_stationary(b, runs);
    l_.stationary_end = l_.next_stationary(b, runs);
    replace_results(results);
  }

  /// Waits for the last MMAs, and selects the result of an empty loop unless it `always` runs.
  void finish_accumulators(Builder& b, Value runs, bool always, std::vector<Value>& results) {
    if (accumulators_.empty()) return;
    std::vector<Value> pending;
    std::vector<Type> types;
    for (const PendingAccumulator& acc : accumulators_) {
      pending.push_back(results[acc.carry]);
      types.push_back(k_.type(acc.init));
    }
    const std::vector<Value> done = MmaLoop::wait(b, pending, types, 0);
    for (std::size_t i = 0; i < uses_.size(); ++i)
      if (is_late(uses_[i])) {
        const ChannelRing& ring = l_.pipelines[i].ring;
        ring.release(b, ring.back(b, l_.pipelines[i].end, 1).slot, runs, uses_[i].has_threads);
      }
    for (std::size_t i = 0; i < done.size(); ++i)
      results[accumulators_[i].carry] =
          always ? done[i] : b.select(runs, done[i], accumulators_[i].init);
  }

  /// The first step and the last stage stand around the loop, in a branch unless there is an
  /// iteration for sure.
  void skewed() {
    const Value first = k_[old_].operands[0], last = k_[old_].operands[1];
    const bool always = IndexFacts(k_).is_less(first, last);
    const OpId branch = always ? OpId() : enter_branch();
    step(0, 0, first, false);
    values_.end_step();
    Builder b = here();
    for (std::size_t i = 0; i < uses_.size(); ++i)
      if (uses_[i].first_stage == 0) uses_[i].at = l_.pipelines[i].ring.next(b, uses_[i].at);
    if (turn_) turn_ = b.op(Opcode::Xor, {turn_, b.i32(1)});
    build_loop(here().add(first, k_[old_].operands[2]));
    step(1, 1, {}, false);
    Builder tail = here();
    for (std::size_t i = 0; i < uses_.size(); ++i)
      l_.pipelines[i].end =
          uses_[i].first_stage == 0 ? uses_[i].at : l_.pipelines[i].ring.next(tail, uses_[i].at);
    const Value yes = tail.flag(true);
    l_.release_stationary(tail, yes);
    l_.stationary_end = l_.next_stationary(tail, yes);
    std::vector<Value> results;
    for (std::size_t i = 0; i < k_[old_].results.size(); ++i) results.push_back(values_.result(i));
    if (branch) results = leave_branch(branch, std::move(results));
    replace_results(results);
  }

  /// The values behind the loop that positions of rings have, in the order in which a branch
  /// yields them.
  std::vector<Value*> ends() {
    std::vector<Value*> all;
    if (!l_.is_nested()) return all;
    for (OperandPipeline& p : l_.pipelines) all.insert(all.end(), {&p.end.slot, &p.end.phase});
    if (l_.has_stationary())
      for (Value* v : l_.stationary_carries(l_.stationary_end)) all.push_back(v);
    return all;
  }

  OpId enter_branch() {
    Builder b = l_.before(old_);
    const auto inits = loop_inits(k_[old_]);
    std::vector<Value> otherwise(inits.begin(), inits.end());
    for (OperandPipeline& p : l_.pipelines) p.end = p.begin;
    l_.stationary_end = l_.stationary_position;
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
  std::vector<Value> leave_branch(OpId branch, std::vector<Value> results) {
    const std::size_t own = results.size();
    for (const Value* v : ends()) results.push_back(*v);
    k_[anchor_].operands.assign(results.begin(), results.end());
    const auto& yielded = k_[branch].results;
    std::size_t next = own;
    for (Value* v : ends()) *v = yielded[next++];
    return {yielded.begin(), yielded.begin() + static_cast<std::ptrdiff_t>(own)};
  }

  /// The loop of the steady state, in front of the anchor, from `first` on.
  void build_loop(Value first) {
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
    for (std::size_t i = 0; i < uses_.size(); ++i)
      uses_[i].at = l_.pipelines[i].ring.next(tail, uses_[i].at);
    if (turn_) turn_ = tail.op(Opcode::Xor, {turn_, tail.i32(1)});
    if (gather_slot_) gather_slot_ = gathers_.next(tail, gather_slot_);
    std::vector<Value> next = values_.next();
    for (const Value* v : positions()) next.push_back(*v);
    k_[anchor_].operands.assign(next.begin(), next.end());
    anchor_ = outer;
    take(k_[loop].results);
  }
  /// Positions that the loop carries behind its values.
  std::vector<Value*> positions() {
    std::vector<Value*> all;
    for (RingUse& use : uses_) all.insert(all.end(), {&use.at.slot, &use.at.phase});
    if (turn_) all.push_back(&turn_);
    if (gather_slot_) all.push_back(&gather_slot_);
    return all;
  }
  void take(std::span<const Value> values) {
    std::size_t next = values_.carried().size();
    values_.take(values);
    for (Value* v : positions()) *v = values[next++];
  }

  // ---- a step
  Builder here() { return l_.before(anchor_); }

  /// The ops of these stages; `iteration` is that of stage 0.
  void step(int first, int last, Value iteration, bool is_steady) {
    values_.begin_step(iteration);
    have_met_ = false;
    read_.clear();
    for (StoredTile& s : stored_) s.is_stored = s.is_published = false;
    for (RingUse& use : uses_) {
      use.is_waited_for = false;
      use.is_released = use.last_stage < first || use.last_stage > last;
      use.left = use.dots;
      if (!is_late(use)) use.left.insert(use.loads.begin(), use.loads.end());
    }
    Builder head = here();
    if (is_steady) {
      for (std::size_t i = 0; i < uses_.size(); ++i)
        if (!is_late(uses_[i]))
          l_.prefetch_next(head, l_.pipelines[i], position(head, i, uses_[i].last_stage));
      if (stay_in_flight_)
        for (const PendingAccumulator& acc : accumulators_)
          running_.push_back(
              {acc.dot, values_.read(body_carries(k_, old_)[acc.carry], 0), {}, 0, true});
      if (!accumulators_.empty()) is_later_ = head.cmp("ne", iteration, k_[old_].operands[0]);
    }
    if (has_gathers()) meet_for_gathers(head);
    if (first == 0 && is_steady == (order_.last_stage == 0)) l_.wait_stationary(head);
    for (StoredTile& s : stored_)
      if (!k_[s.tile].def && first == 0) {
        Builder b = here();
        store(b, s, values_.read(s.tile, 0));
      }
    for (const ScheduledOp& at : order_.ops)
      if (at.stage >= first && at.stage <= last) graph_.find(at.op) ? issue(at) : place(at);
    retire_last_step();
    retire(stay_in_flight_ ? accumulators_.size() : 0);
    running_.clear();
  }

  void place(const ScheduledOp& at) {
    retire_last_step();
    const std::vector<Value> used = used_by(k_, at.op);
    for (Value v : used) {
      need(v, at.stage);
      if (const OperandLoad* load = ring_load(v)) read(load->load, at.stage);
    }
    if (order_.fragments.contains(at.op) || contains_mma(k_, at.op)) retire(0);
    Builder b = here();
    b.loc = k_[at.op].loc;
    ValueMap map;
    for (Value v : used)
      if (const Value now = values_.read(v, at.stage); now != v) map[v] = now;
    clone_op(b, at.op, map);
    for (Value v : k_[at.op].results) {
      values_.define(v, at.stage, map.at(v));
      for (StoredTile& s : stored_)
        if (s.tile == v) store(b, s, map.at(v));
    }
  }

  /// Threads read a tile that TMA has loaded, all of it.
  void read(OpId load, int stage) {
    const std::size_t i = ring_of_.at(load);
    const Value loaded = k_[load].results[0];
    const std::pair now(load, stage);
    if (std::ranges::find(read_, now) != read_.end()) return;
    read_.push_back(now);
    RingUse& use = uses_[i];
    Builder b = here();
    b.loc = k_[load].loc;
    wait(b, i, stage);
    const Value tile =
        b.op(Opcode::SmemLoad, {ring(load), position(b, i, stage).slot}, k_.type(loaded));
    values_.define(loaded, stage, tile);
    if (stage == use.last_stage && !is_late(use)) use.left.erase(load);
    release_if_read(b, i);
  }

  /// The warps have waited for an iteration of a later stage in the step before.
  void wait(Builder& b, std::size_t i, int stage) {
    RingUse& use = uses_[i];
    if (stage == use.first_stage && !std::exchange(use.is_waited_for, true))
      l_.pipelines[i].ring.wait(b, use.at);
  }

  void release_if_read(Builder& b, std::size_t i) {
    RingUse& use = uses_[i];
    if (!use.left.empty() || use.is_released) return;
    use.is_released = true;
    const ChannelRing& ring = l_.pipelines[i].ring;
    if (is_late(use)) {
      ring.release(b, ring.back(b, use.at, 1).slot, is_later_, use.has_threads);
      l_.prefetch_next(b, l_.pipelines[i], use.at);
    } else {
      ring.release(b, position(b, i, use.last_stage).slot, b.flag(true), use.has_threads);
    }
  }

  /// Slots of the iteration before are free: its wgmmas have retired, and with a slot for each of
  /// two iterations, or behind a barrier, those of all warpgroups have.
  void store(Builder& b, StoredTile& s, Value tile) {
    if (s.slots == 1 && !have_met_) {
      b.effect(Opcode::CtaBarrier, {});
      have_met_ = true;
    }
    b.effect(Opcode::SmemStore, {s.buffer, tile, slot(b, s)});
    s.is_stored = true;
  }
  Value slot(Builder& b, const StoredTile& s) const { return s.slots == 2 ? turn_ : b.i32(0); }

  void publish(Builder& b, Value tile) {
    StoredTile& wanted = *std::ranges::find(stored_, tile, &StoredTile::tile);
    if (wanted.is_published) return;
    b.effect(Opcode::CtaBarrier, {}, {{AttrName::generic_proxy, 1}});
    have_met_ = true;
    for (StoredTile& s : stored_) s.is_published = s.is_published || s.is_stored;
  }

  // ---- wgmmas
  void issue(const ScheduledOp& at) {
    const OpId dot = at.op;
    const GraphDot& node = *graph_.find(dot);
    const Value sum = k_[dot].results[0];
    need(k_[dot].operands[2], at.stage);
    Builder b = here();
    b.loc = k_[dot].loc;
    const bool is_pending = has_accumulator(dot);
    Value acc = k_[dot].operands[2];
    const bool is_fresh = !is_pending && is_zero(k_, acc);
    acc = is_fresh ? b.op(Opcode::Poison, {}, k_.type(acc)) : values_.read(acc, at.stage);
    if (stay_in_flight_) {
      Running& before = *std::ranges::find(running_, dot, &Running::dot);
      acc = before.pending;
      before.is_continued = true;
    }
    std::vector<Value> operands{acc, {}, {}, is_pending ? is_later_ : b.flag(!is_fresh)};
    AttrList attrs = k_[dot].attrs;
    for (std::size_t i : {0U, 1U}) {
      const DotOperand& operand = node.operands[i];
      if (operand.form == OperandForm::Register) {
        operands[i + 1] = values_.read(k_[dot].operands[i], at.stage);
        continue;
      }
      if (operand.is_transposed)
        attrs.set(i == 0 ? AttrName::trans_a : AttrName::trans_b, std::int64_t{1});
      operands[i + 1] = shared_operand(b, operand, at.stage, operands);
    }
    const Type pending = Type::pending(k_.type(sum));
    const OpId issued = b.create(Opcode::DotAsync, operands, std::span(&pending, 1), attrs);
    const bool has_fragments = node.operands[0].form == OperandForm::Register;
    running_.push_back(
        {dot, k_[issued].results[0], has_fragments ? operands[1] : Value(), at.stage});
    values_.define(sum, at.stage, k_[issued].results[0]);
  }

  /// The shared tile of an operand; its slot is added to the op's operands.
  Value shared_operand(Builder& b, const DotOperand& operand, int stage,
                       std::vector<Value>& operands) {
    if (operand.form == OperandForm::Shared) {
      publish(b, operand.tile);
      const StoredTile& s = *std::ranges::find(stored_, operand.tile, &StoredTile::tile);
      operands.push_back(slot(b, s));
      return s.buffer;
    }
    const OpId load = k_[operand.tile].def;
    if (operand.form == OperandForm::Gathered) {
      operands.push_back(gather_slot_);
      return std::ranges::find(gathers_.loads(), load, &OperandLoad::load)->ring;
    }
    if (operand.form == OperandForm::Stationary) {
      operands.push_back(l_.stationary_position.slot);
    } else {
      wait(b, ring_of_.at(load), stage);
      operands.push_back(position(b, ring_of_.at(load), stage).slot);
    }
    return ring(load);
  }

  /// Waits for the dot whose result this is, if the step has issued it and reads it.
  void need(Value v, int stage) {
    const OpId def = made_by(v);
    if (!def || !graph_.find(def) || !values_.is_of_this_step(v, stage)) return;
    const auto at = std::ranges::find_if(
        running_, [&](const Running& r) { return r.dot == def && !r.is_of_last_step; });
    if (at != running_.end()) retire(static_cast<std::size_t>(running_.end() - at) - 1);
  }
  /// The op of the loop that makes the value, in the iteration before for one that is carried.
  OpId made_by(Value v) const {
    const RegionId body = k_[old_].regions[0];
    if (k_[v].def || k_[v].region != body || k_[v].position == 0) return k_[v].def;
    return k_[loop_nexts(std::as_const(k_), old_)[k_[v].position - 1]].def;
  }

  /// Behind a step's dots, those of the step before are complete.
  void retire_last_step() {
    const auto is_last = [](const Running& r) { return r.is_of_last_step; };
    const auto is_waiting = [](const Running& r) { return r.is_of_last_step && !r.is_continued; };
    if (std::ranges::any_of(running_, is_waiting)) return;
    if (const auto count = std::ranges::count_if(running_, is_last); count > 0) {
      copy_ahead();
      retire(running_.size() - static_cast<std::size_t>(count));
    }
  }

  /// All but the last `left` dots are complete behind this.
  void retire(std::size_t left) {
    if (running_.size() <= left) return;
    const std::size_t over = running_.size() - left;
    Builder b = here();
    std::vector<Value> pending, kept;
    std::vector<Type> types;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const Running& r = running_[i];
      if (i < over && r.fragments) kept.push_back(r.fragments);
      if (r.is_continued) continue;
      const Type sum = k_.type(k_[r.dot].results[0]);
      pending.push_back(r.pending);
      types.push_back(i < over && !has_accumulator(r.dot) ? sum : Type::pending(sum));
    }
    const std::vector<Value> results =
        MmaLoop::wait(b, pending, types, static_cast<int>(left), std::move(kept));
    std::size_t next = 0;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      Running& r = running_[i];
      if (!r.is_continued) {
        r.pending = results[next++];
        if (!r.is_of_last_step) values_.define(k_[r.dot].results[0], r.stage, r.pending);
      }
      if (i >= over) continue;
      for (RingUse& use : uses_)
        if (is_late(use) == r.is_of_last_step) use.left.erase(r.dot);
    }
    running_.erase(running_.begin(), running_.begin() + static_cast<std::ptrdiff_t>(over));
    for (std::size_t i = 0; i < uses_.size(); ++i) release_if_read(b, i);
  }

  // ---- behind the loop
  void replace_results(std::span<const Value> results) {
    for (std::size_t i = 0; i < k_[old_].results.size(); ++i)
      k_.replace_all_uses(k_[old_].results[i], results[i]);
  }

  /// The old loop, and permutes and conversions of an operand in front of it.
  void erase_old() {
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

  MmaLoop& l_;
  Kernel& k_;
  OpId old_;  ///< the loop as it was
  DotGraph graph_;
  LoopOrder order_;
  StepValues values_;
  AsyncCopies gathers_;
  std::vector<RingUse> uses_;                      ///< of each ring
  std::unordered_map<OpId, std::size_t> ring_of_;  ///< of each load of the loop
  const Plan& plan_;
  OpId anchor_;  ///< ops go in front of it
  std::vector<StoredTile> stored_;
  std::vector<PendingAccumulator> accumulators_;  ///< one for each dot, or none
  bool stay_in_flight_ = false;                   ///< all dots, over the end of a step
  std::vector<Running> running_;
  std::vector<std::pair<OpId, int>> read_;  ///< loads that threads have read in the step, by stage
  Value is_later_;                          ///< the step is not the first
  Value turn_;                              ///< slot of tiles with two slots
  Value gather_slot_;                       ///< slot of the step's gathered rows
  bool has_copied_ = false;                 ///< the step has copied rows of a later one
  bool have_met_ = false;  ///< a barrier stands in the step, behind all wgmmas of the one before
};

}  // namespace

void expand_dot_graph(MmaLoop& loop, DotGraph graph, LoopOrder order, const Plan& plan,
                      PassContext& context) {
  Expansion(loop, std::move(graph), std::move(order), plan).run(context);
}

}  // namespace tegula::ir
