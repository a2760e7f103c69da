#include <algorithm>
#include <ranges>

#include "ir/analysis/index_facts.h"
#include "ir/loop.h"
#include "ir/passes/dot_graph/expansion.h"

namespace tegula::ir {

RingPosition Expansion::position(Builder& b, const OperandPipeline& use, int stage) {
  return stage == use.first_stage ? use.position
                                  : use.ring.back(b, use.position, stage - use.first_stage);
}

void Expansion::await_gathers(Builder& b) {
  b.effect(Opcode::AsyncWait, {}, {{AttrName::count, gather_lead() - 1}});
  b.effect(Opcode::CtaBarrier, {}, {{AttrName::generic_proxy, 1}});
  if (!stay_in_flight_) stored_.met();
  const int freed = gathers_.slots() - gather_lead();
  const Value iv = k_[l_.body].args[0];
  gathers_.copy_ahead(b, iv, gather_lead(), gathers_.back(b, gather_slot_, freed), entries_);
  entries_ = gathers_.read_entries(b, iv, gather_lead() + 1);
}

void Expansion::step(int first, int last, Value iteration, bool is_steady) {
  values_.begin_step(iteration);
  stored_.begin_step();
  read_.clear();
  iteration_ = iteration;
  is_first_ = first == 0 && !is_steady;
  is_whole_ = first == 0 && last == order_.last_stage;
  unread_stationary_ = first == 0 ? early_stationary_ : std::unordered_set<OpId>();
  for (OperandPipeline& use : l_.pipelines) {
    use.is_waited_for = false;
    use.is_released = use.last_stage < first || use.last_stage > last || is_very_last_;
    use.remaining_readers = use.dots;
    if (is_late(use))
      std::erase_if(use.remaining_readers, [&](OpId dot) { return !is_lasting(dot); });
    else
      use.remaining_readers.insert(use.loads.begin(), use.loads.end());
  }
  Builder head = here();
  if (is_steady) {
    for (const OperandPipeline& use : l_.pipelines)
      if (!is_late(use)) l_.prefetch_next(head, use, position(head, use, use.last_stage));
    if (lasting_ > 0)
      for (const PendingAccumulator& acc : accumulators_)
        running_.push_back(
            {acc.dot, values_.read(body_carries(k_, old_)[acc.carry], 0), {}, 0, true});
    if (!accumulators_.empty()) is_later_ = head.cmp("ne", iteration, k_[old_].operands[0]);
  }
  if (has_gathers()) await_gathers(head);
  if (first == 0 && is_steady == (order_.last_stage == 0)) l_.wait_stationary(head);
  for (Value tile : graph_.shared)
    if (!k_[tile].def && first == 0) store(tile, values_.read(tile, 0));
  for (const ScheduledOp& scheduled : order_.ops) {
    if (scheduled.stage < first || scheduled.stage > last) continue;
    graph_.find(scheduled.op) ? issue(scheduled) : place(scheduled);
    end_turn(scheduled.op);
  }
  retire_last_step();
  retire(lasting_);
  running_.clear();
}

void Expansion::place(const ScheduledOp& scheduled) {
  retire_last_step();
  Builder turn = here();
  begin_turn(turn, scheduled.op);
  if (scheduled.stage == 0 && choices_.contains(scheduled.op)) return choose(scheduled.op);
  const std::vector<Value> used = used_by(k_, scheduled.op);
  for (Value v : used) {
    need(v, scheduled.stage);
    if (const OperandLoad* load = ring_load(v)) read(load->load, scheduled.stage);
  }
  if (order_.fragments.contains(scheduled.op) || contains_mma(k_, scheduled.op)) retire(0);
  Builder b = here();
  b.loc = k_[scheduled.op].loc;
  ValueMap map;
  for (Value v : used)
    if (const Value now = values_.read(v, scheduled.stage); now != v) map[v] = now;
  clone_op(b, scheduled.op, map);
  for (Value v : k_[scheduled.op].results) {
    values_.define(v, scheduled.stage, map.at(v));
    store(v, map.at(v));
  }
}

void Expansion::store(Value tile, Value made) {
  if (!stored_.has(tile)) return;
  const auto last = std::ranges::count_if(running_, &Running::is_of_last_step);
  if (last > 0) retire(running_.size() - static_cast<std::size_t>(last));
  Builder b = here();
  if (const OpId def = k_[tile].def) b.loc = k_[def].loc;
  stored_.store(b, tile, made);
}

void Expansion::choose(OpId select) {
  const auto& operands = k_[select].operands;
  const Value chosen = operands[is_first_ ? 1 : 2], other = operands[is_first_ ? 2 : 1];
  need(chosen, 0);
  if (const OperandLoad* load = ring_load(chosen)) read(load->load, 0);
  const Value v = k_[select].results[0], made = values_.read(chosen, 0);
  values_.define(v, 0, made);
  store(v, made);
  for (Value unused : {other, operands[0]}) unused_.push_back(values_.read(unused, 0));
}

void Expansion::read(OpId load, int stage) {
  const Value loaded = k_[load].results[0];
  const std::pair now(load, stage);
  if (std::ranges::find(read_, now) != read_.end()) return;
  read_.push_back(now);
  OperandPipeline& use = *ring_of_.at(load);
  Builder b = here();
  b.loc = k_[load].loc;
  wait(b, use, stage);
  const Value tile =
      b.op(Opcode::SmemLoad, {l_.ring_of(load), position(b, use, stage).slot}, k_.type(loaded));
  values_.define(loaded, stage, tile);
  if (stage == use.last_stage && !is_late(use)) use.remaining_readers.erase(load);
  release_if_read(b, use);
}

void Expansion::release_if_read(Builder& b, OperandPipeline& use) {
  if (!use.remaining_readers.empty() || std::exchange(use.is_released, true)) return;
  if (is_late(use)) {
    use.ring.release(b, use.ring.back(b, use.position, 1).slot, is_later_, use.has_threads);
    l_.prefetch_next(b, use, use.position);
  } else {
    const Value is_read = exists_ && use.first_stage > 0 ? exists_ : b.flag(true);
    use.ring.release(b, position(b, use, use.last_stage).slot, is_read, use.has_threads);
  }
}

void Expansion::issue(const ScheduledOp& scheduled) {
  const OpId dot = scheduled.op;
  const GraphDot& node = *graph_.find(dot);
  const Value sum = k_[dot].results[0];
  if (!continues(dot, scheduled.stage)) need(k_[dot].operands[2], scheduled.stage);
  Builder b = here();
  b.loc = k_[dot].loc;
  const bool is_pending = has_accumulator(dot);
  Value acc = k_[dot].operands[2];
  const bool is_fresh = !is_pending && is_zero(k_, acc);
  acc = is_fresh ? b.op(Opcode::Poison, {}, k_.type(acc)) : values_.read(acc, scheduled.stage);
  if (is_lasting(dot)) {
    const auto before = std::ranges::find(running_, dot, &Running::dot);
    acc = before == running_.end() ? last_sums_.at(dot) : before->pending;
    if (before != running_.end()) before->is_continued = true;
  }
  const Value adds = is_pending                     ? is_later_
                     : adds_ && scheduled.stage > 0 ? adds_
                                                    : b.flag(!is_fresh);
  std::vector<Value> operands{acc, {}, {}, adds};
  AttrList attrs = k_[dot].attrs;
  for (std::size_t i : {0U, 1U}) {
    const DotOperand& operand = node.operands[i];
    if (operand.form == OperandForm::Register) {
      operands[i + 1] = values_.read(k_[dot].operands[i], scheduled.stage);
      continue;
    }
    if (operand.is_transposed)
      attrs.set(i == 0 ? AttrName::trans_a : AttrName::trans_b, std::int64_t{1});
    operands[i + 1] = shared_operand(b, operand, scheduled.stage, operands);
  }
  const Type pending = Type::pending(k_.type(sum));
  begin_turn(b, dot);
  const OpId issued = b.create(Opcode::DotAsync, operands, std::span(&pending, 1), attrs);
  const bool has_fragments = node.operands[0].form == OperandForm::Register;
  running_.push_back(
      {dot, k_[issued].results[0], has_fragments ? operands[1] : Value(), scheduled.stage});
  if (!is_of_last_tile(scheduled.stage))
    values_.define(sum, scheduled.stage, k_[issued].results[0]);
}

bool Expansion::continues(OpId dot, int stage) {
  const Value acc = k_[dot].operands[2];
  const OpId def = k_[acc].def;
  if (!chained_.contains(def) || !values_.is_of_this_step(acc, stage)) return false;
  const auto before = std::ranges::find_if(
      running_, [&](const Running& r) { return r.dot == def && !r.is_of_last_step; });
  if (before == running_.end()) return false;
  before->is_continued = true;
  return true;
}

Value Expansion::shared_operand(Builder& b, const DotOperand& operand, int stage,
                                std::vector<Value>& operands) {
  if (operand.form == OperandForm::Shared) return stored_.read(b, operand.tile, operands);
  const OpId load = k_[operand.tile].def;
  if (operand.form == OperandForm::Gathered) {
    operands.push_back(gather_slot_);
    return std::ranges::find(gathers_.loads(), load, &OperandLoad::load)->ring;
  }
  if (operand.form == OperandForm::Stationary) {
    operands.push_back(l_.stationary->begin.slot);
  } else {
    wait(b, *ring_of_.at(load), stage);
    operands.push_back(position(b, *ring_of_.at(load), stage).slot);
  }
  return l_.ring_of(load);
}

void Expansion::need(Value v, int stage) {
  const OpId def = made_by(v);
  if (!def || !graph_.find(def) || !values_.is_of_this_step(v, stage)) return;
  const auto found = std::ranges::find_if(
      running_, [&](const Running& r) { return r.dot == def && !r.is_of_last_step; });
  if (found != running_.end()) retire(static_cast<std::size_t>(running_.end() - found) - 1);
}

void Expansion::retire_last_step() {
  const auto is_last = [](const Running& r) { return r.is_of_last_step; };
  const auto is_waiting = [](const Running& r) { return r.is_of_last_step && !r.is_continued; };
  if (std::ranges::any_of(running_, is_waiting)) return;
  if (const auto count = std::ranges::count_if(running_, is_last); count > 0)
    retire(running_.size() - static_cast<std::size_t>(count));
}

void Expansion::retire(std::size_t in_flight) {
  if (running_.size() <= in_flight) return;
  const std::size_t over = running_.size() - in_flight;
  Builder b = here();
  const auto is_pinned = [&](const Running& r) { return order_.pinned.contains(r.dot); };
  if (is_whole_ && std::ranges::any_of(running_ | std::views::take(over), is_pinned))
    b.effect(Opcode::Pin, {});
  std::vector<Value> pending, kept;
  std::vector<Type> types;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    const Running& r = running_[i];
    if (i < over && r.fragments) kept.push_back(r.fragments);
    if (r.is_continued) continue;
    const Type sum = k_.type(k_[r.dot].results[0]);
    pending.push_back(r.pending);
    const bool stays_pending = has_accumulator(r.dot) && (stay_in_flight_ || lasting_ == 0);
    types.push_back(i < over && !stays_pending ? sum : Type::pending(sum));
  }
  const std::vector<Value> results =
      MmaLoop::wait(b, pending, types, static_cast<int>(in_flight), std::move(kept));
  std::size_t next = 0;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Running& r = running_[i];
    if (!r.is_continued) {
      r.pending = results[next++];
      if (is_of_last_tile(r.stage))
        late_sum_ = r.pending;
      else if (r.is_of_last_step)
        last_sums_[r.dot] = r.pending;
      else
        values_.define(k_[r.dot].results[0], r.stage, r.pending);
    }
    if (i >= over) continue;
    for (OperandPipeline& use : l_.pipelines)
      if (is_late(use) == r.is_of_last_step) use.remaining_readers.erase(r.dot);
    stationary_read_ |= unread_stationary_.erase(r.dot) > 0 && unread_stationary_.empty();
  }
  running_.erase(running_.begin(), running_.begin() + static_cast<std::ptrdiff_t>(over));
  for (OperandPipeline& use : l_.pipelines) release_if_read(b, use);
  if (!std::exchange(stationary_read_, false)) return;
  l_.release_stationary(b, l_.is_last_index(b, old_, iteration_));
}

}  // namespace tegula::ir
