// Before, in machine form (attention backward, shortened):
//     for i { q = load_view Q[i]; s = dot k, permute q, 0; ds = f(s); dv = dot ds, q, dv;
//             dq = dot (permute ds), k, 0; store_view dQ[i], dq }
// After:
//     for i, slot, phase, turn {
//       the producer thread loads iteration i + stages - 1
//       channel_wait slot, phase; s' = dot_async k, ring_q[slot] (trans_b)
//       s = dot_wait 0; ds = f(s); smem_store buffer[turn], ds; cta_barrier (generic_proxy)
//       dq' = dot_async buffer[turn] (trans_a), k; dv' = dot_async buffer[turn], ring_q[slot]
//       dq = dot_wait 1; store_view dQ[i], dq; dv = dot_wait 0; channel_release slot
//     }
// Waits, releases and barriers follow from the order: a wait stands where something needs a result
// that is in flight and leaves what was issued behind it; a slot is released behind the wait that
// retires its last reader; a barrier stands between the store of a tile and the first dot that
// reads it. Nothing is in flight from one iteration to the next.
#include "ir/passes/dot_graph/expand_dot_graph.h"

#include <algorithm>
#include <ranges>

#include "ir/analysis/index_facts.h"
#include "ir/erase_unused.h"
#include "ir/loop.h"
#include "ir/passes/dot_graph/dot_order.h"

namespace tegula::ir {
namespace {

/// A tile that threads store for the wgmmas of all warpgroups.
struct StoredTile {
  Value tile, buffer;
  int slots = 1;
  bool is_published = false;
};

/// A dot that was issued.
struct Running {
  OpId dot;
  Value pending, fragments;  ///< fragments: A in registers, or none
};

/// The part of a ring that the iteration has still to read.
struct RingUse {
  std::unordered_set<OpId> dots, loads;  ///< dots not yet retired, loads that threads read
  bool is_waited_for = false, is_released = false, is_read_by_threads = false;
  RingPosition at{};
};

class Expansion {
 public:
  Expansion(MmaLoop& l, DotGraph graph, const Plan& plan)
      : l_(l), k_(l.k), graph_(std::move(graph)), order_(order_of(k_, graph_)), plan_(plan) {}

  void run() {
    choose_rings();
    l_.adopt(std::move(rings_), graph_.stationary);
    allocate_stored();
    l_.fill_prologue(0);
    begin();
    for (OpId op : order_.ops)
      if (k_[op].opcode == Opcode::Dot)
        issue(op);
      else
        place(op);
    end();
    std::vector<OpId> unused = order_.dropped;
    for (const GraphDot& dot : graph_.dots) {
      for (std::size_t i : {0U, 1U}) outside(k_[dot.op].operands[i], unused);
      k_.erase(dot.op);
    }
    erase_unused(k_, std::move(unused));
    l_.finish();
  }

 private:
  // ---- rings
  /// Each load of an operand fills a ring of its own, as do those that one dot waits for together.
  /// Other loads share the ring that was waited for before them.
  void choose_rings() {
    for (OpId op : order_.ops) {
      const GraphDot* dot = graph_.find(op);
      std::vector<const OperandLoad*> fresh;
      for (Value v : dot ? tiles_of(*dot) : used_by(k_, op))
        if (const OperandLoad* load = ring_load(v)) {
          if (!ring_of_.contains(load->load) && std::ranges::find(fresh, load) == fresh.end())
            fresh.push_back(load);
        }
      if (!fresh.empty() && (dot || rings_.empty())) rings_.emplace_back(), uses_.emplace_back();
      for (const OperandLoad* load : fresh) {
        ring_of_[load->load] = rings_.size() - 1;
        rings_.back().push_back(*load);
      }
    }
    for (OpId op : order_.ops) {
      const GraphDot* dot = graph_.find(op);
      for (Value v : dot ? tiles_of(*dot) : used_by(k_, op))
        if (const OperandLoad* load = ring_load(v)) {
          RingUse& use = uses_[ring_of_.at(load->load)];
          dot ? use.dots.insert(op) : use.loads.insert(load->load);
        }
    }
  }
  static std::vector<Value> tiles_of(const GraphDot& dot) {
    return {dot.operands[0].tile, dot.operands[1].tile};
  }
  const OperandLoad* ring_load(Value tile) const {
    const OperandLoad* load = graph_.load_of(k_, tile);
    return load && k_[load->load].parent == l_.body ? load : nullptr;
  }

  void allocate_stored() {
    Builder b = l_.before_all();
    int slots = graph_.first_shared_slots(k_, plan_.stages);
    for (OpId op : order_.ops)
      for (Value v : k_[op].results)
        if (std::ranges::find(graph_.shared, v) != graph_.shared.end())
          add_stored(b, v, std::exchange(slots, 1));
    for (Value v : graph_.shared)  // carried by the loop
      if (!k_[v].def) add_stored(b, v, 1);
  }
  void add_stored(Builder& b, Value tile, int slots) {
    const OpId def = k_[tile].def;
    b.loc = k_[def ? def : l_.loop].loc;
    const Value buffer = b.op(Opcode::SmemAlloc, {}, stored_type(k_.type(tile), slots));
    stored_.push_back({tile, buffer, slots});
  }

  // ---- an iteration
  void begin() {
    first_carry_ = k_[l_.loop].results.size();
    for (std::size_t i = 0; i < l_.pipelines.size(); ++i)
      uses_[i].at = l_.add_carry(l_.pipelines[i].begin);
    const bool has_two_slots = std::ranges::any_of(stored_, [](auto& s) { return s.slots == 2; });
    Builder outside = l_.before(l_.loop);
    if (has_two_slots) turn_ = l_.add_carry(l_.loop, outside.i32(0));
    Builder head = l_.before(k_[l_.body].first);
    for (std::size_t i = 0; i < l_.pipelines.size(); ++i)
      l_.prefetch_next(head, l_.pipelines[i], uses_[i].at);
    l_.wait_stationary(head);
    for (StoredTile& s : stored_)
      if (!k_[s.tile].def) {
        Builder b = here();
        store(b, s);
      }
  }

  Builder here() { return l_.before(k_.terminator(l_.body)); }
  void move(OpId op) {
    k_.unlink(op);
    k_.insert_before(k_.terminator(l_.body), op);
  }

  void place(OpId op) {
    for (Value v : used_by(k_, op)) {
      need(v);
      if (const OperandLoad* load = ring_load(v)) read(load->load);
    }
    move(op);
    for (Value v : k_[op].results)
      for (StoredTile& s : stored_)
        if (s.tile == v) {
          Builder b = here();
          b.loc = k_[op].loc;
          store(b, s);
        }
  }

  /// Threads read a tile that TMA has loaded, all of it.
  void read(OpId load) {
    const std::size_t i = ring_of_.at(load);
    RingUse& use = uses_[i];
    if (!use.loads.contains(load)) return;
    Builder b = here();
    b.loc = k_[load].loc;
    wait(b, i);
    const Value loaded = k_[load].results[0];
    const Value tile = b.op(Opcode::SmemLoad, {ring(load), use.at.slot}, k_.type(loaded));
    k_.replace_all_uses(loaded, tile);
    use.loads.erase(load);
    use.is_read_by_threads = true;
    release_if_read(b, i);
  }

  Value ring(OpId load) const {
    for (const OperandPipeline& p : l_.pipelines)
      for (const OperandLoad& l : p.ring.loads())
        if (l.load == load) return l.ring;
    return l_.stationary_ring(load);
  }

  void wait(Builder& b, std::size_t i) {
    if (!std::exchange(uses_[i].is_waited_for, true)) l_.pipelines[i].ring.wait(b, uses_[i].at);
  }

  void release_if_read(Builder& b, std::size_t i) {
    RingUse& use = uses_[i];
    if (!use.is_waited_for || !use.dots.empty() || !use.loads.empty() ||
        std::exchange(use.is_released, true))
      return;
    l_.pipelines[i].ring.release(b, use.at.slot, b.flag(true), use.is_read_by_threads);
  }

  /// Slots of the iteration before are free: its wgmmas have retired, and with a slot for each of
  /// two iterations, or behind a barrier, those of all warpgroups have.
  void store(Builder& b, StoredTile& s) {
    if (s.slots == 1 && !have_met_) {
      b.effect(Opcode::CtaBarrier, {});
      have_met_ = true;
    }
    b.effect(Opcode::SmemStore, {s.buffer, s.tile, slot(b, s)});
  }
  Value slot(Builder& b, const StoredTile& s) const { return s.slots == 2 ? turn_ : b.i32(0); }

  void publish(Builder& b, Value tile) {
    StoredTile& wanted = *std::ranges::find(stored_, tile, &StoredTile::tile);
    if (wanted.is_published) return;
    b.effect(Opcode::CtaBarrier, {}, {{AttrName::generic_proxy, 1}});
    have_met_ = true;
    // A tile that is stored later has not been computed yet.
    for (StoredTile& s : stored_) s.is_published = s.is_published || is_placed(s.tile);
  }
  bool is_placed(Value tile) const {
    const OpId def = k_[tile].def;
    if (!def) return true;
    for (OpId op = k_.terminator(l_.body); op; op = k_[op].prev)
      if (k_[op].opcode == Opcode::SmemStore && k_[op].operands[1] == tile) return true;
    return false;
  }

  // ---- wgmmas
  void issue(OpId dot) {
    const GraphDot& node = *graph_.find(dot);
    need(k_[dot].operands[2]);
    Builder b = here();
    b.loc = k_[dot].loc;
    if (const auto it = order_.fragments.find(dot); it != order_.fragments.end()) {
      if (!it->second.empty()) retire(0);
      for (OpId op : it->second) place(op);
    }
    Value acc = k_[dot].operands[2];
    const bool is_fresh = is_zero(k_, acc);
    if (is_fresh) acc = b.op(Opcode::Poison, {}, k_.type(acc));
    std::vector<Value> operands{acc, {}, {}, b.flag(!is_fresh)};
    AttrList attrs = k_[dot].attrs;
    for (std::size_t i : {0U, 1U}) {
      const DotOperand& operand = node.operands[i];
      operands[i + 1] = k_[dot].operands[i];
      if (operand.form == OperandForm::Register) continue;
      if (operand.is_transposed)
        attrs.set(i == 0 ? AttrName::trans_a : AttrName::trans_b, std::int64_t{1});
      operands[i + 1] = shared_operand(b, operand, operands);
    }
    const Type sum = Type::pending(k_.type(k_[dot].results[0]));
    const OpId issued = b.create(Opcode::DotAsync, operands, std::span(&sum, 1), attrs);
    const bool has_fragments = node.operands[0].form == OperandForm::Register;
    running_.push_back({dot, k_[issued].results[0], has_fragments ? operands[1] : Value()});
  }

  /// The shared tile of an operand; its slot is added to the op's operands.
  Value shared_operand(Builder& b, const DotOperand& operand, std::vector<Value>& operands) {
    if (operand.form == OperandForm::Shared) {
      publish(b, operand.tile);
      const StoredTile& s = *std::ranges::find(stored_, operand.tile, &StoredTile::tile);
      operands.push_back(slot(b, s));
      return s.buffer;
    }
    const OpId load = k_[operand.tile].def;
    if (operand.form == OperandForm::Stationary) {
      operands.push_back(l_.stationary_position.slot);
    } else {
      wait(b, ring_of_.at(load));
      operands.push_back(uses_[ring_of_.at(load)].at.slot);
    }
    return ring(load);
  }

  /// Waits for the dot whose result this is, if it is in flight.
  void need(Value v) {
    const auto at =
        std::ranges::find_if(running_, [&](const Running& r) { return k_[r.dot].results[0] == v; });
    if (at != running_.end()) retire(static_cast<std::size_t>(running_.end() - at) - 1);
  }

  /// All but the last `left` dots are complete behind this.
  void retire(std::size_t left) {
    if (running_.size() <= left) return;
    const std::size_t over = running_.size() - left;
    Builder b = here();
    std::vector<Value> pending, kept;
    std::vector<Type> types;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      const Type sum = k_.type(k_[running_[i].dot].results[0]);
      pending.push_back(running_[i].pending);
      types.push_back(i < over ? sum : Type::pending(sum));
      if (i < over && running_[i].fragments) kept.push_back(running_[i].fragments);
    }
    const std::vector<Value> results =
        MmaLoop::wait(b, pending, types, static_cast<int>(left), std::move(kept));
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (i >= over) {
        running_[i].pending = results[i];
        continue;
      }
      k_.replace_all_uses(k_[running_[i].dot].results[0], results[i]);
      for (RingUse& use : uses_) use.dots.erase(running_[i].dot);
    }
    running_.erase(running_.begin(), running_.begin() + static_cast<std::ptrdiff_t>(over));
    for (std::size_t i = 0; i < uses_.size(); ++i) release_if_read(b, i);
  }

  // ---- behind an iteration, and behind the loop
  void end() {
    retire(0);
    for (std::size_t i = 0; i < l_.pipelines.size(); ++i) l_.advance(l_.pipelines[i], uses_[i].at);
    if (turn_) {
      Builder b = here();
      const Value next = b.op(Opcode::Xor, {turn_, b.i32(1)});
      k_[k_.terminator(l_.body)].operands.push_back(next);
    }
    const auto& results = k_[l_.loop].results;
    for (std::size_t i = 0; i < l_.pipelines.size(); ++i)
      l_.pipelines[i].end = {results[first_carry_ + 2 * i], results[first_carry_ + 2 * i + 1]};
    Builder b = Builder::behind(k_, l_.loop);
    const Value first = k_[l_.loop].operands[0], last = k_[l_.loop].operands[1];
    const Value runs =
        IndexFacts(k_).is_less(first, last) ? b.flag(true) : b.cmp("lt", first, last);
    l_.release_stationary(b, runs);
    l_.stationary_end = l_.next_stationary(b, runs);
    // The next iteration of an outer loop stores again what warpgroups may still read.
    if (l_.is_nested() && !stored_.empty()) b.effect(Opcode::CtaBarrier, {});
    l_.sync_before_reuse(b);
  }

  /// Permutes and conversions of an operand in front of the loop.
  void outside(Value operand, std::vector<OpId>& unused) const {
    for (OpId def = k_[operand].def;
         def && k_[def].is(Opcode::Permute, Opcode::ConvertLayout) && k_[def].parent != l_.body;
         def = k_[k_[def].operands[0]].def)
      unused.push_back(def);
  }

  MmaLoop& l_;
  Kernel& k_;
  DotGraph graph_;
  DotOrder order_;
  const Plan& plan_;
  std::vector<std::vector<OperandLoad>> rings_;
  std::unordered_map<OpId, std::size_t> ring_of_;  ///< of each load of the loop
  std::vector<RingUse> uses_;                      ///< of each ring
  std::vector<StoredTile> stored_;
  std::vector<Running> running_;
  std::size_t first_carry_ = 0;
  Value turn_;  ///< slot of tiles with two slots
  bool have_met_ =
      false;  ///< a barrier stands in the iteration, behind all wgmmas of the one before
};

}  // namespace

void expand_dot_graph(MmaLoop& loop, DotGraph graph, const Plan& plan) {
  Expansion(loop, std::move(graph), plan).run();
}

}  // namespace tegula::ir
