#include "ir/passes/dot_graph/step_values.h"

#include <algorithm>

#include "tegula/error.h"

namespace tegula::ir {

StepValues::StepValues(Kernel& k, OpId loop, const DotGraph& dots, const LoopOrder& order)
    : k_(k),
      loop_(loop),
      body_(k[loop].regions[0]),
      order_(order),
      made_(static_cast<std::size_t>(order.last_stage) + 1) {
  // Loop carries come first, in their order, unless the last stage makes them.
  for (Value v : body_carries(k, loop)) {
    Source s = *source(v, 0);
    s.age = age_of_result(s.stage);
    if (s.age > 0) carry(s);
  }
  for (const ScheduledOp& scheduled : order.ops) {
    const GraphDot* dot = dots.find(scheduled.op);
    for (Value v : used_by(k, scheduled.op)) {
      const bool is_tile = dot && v != k[scheduled.op].operands[2];
      if (!is_tile) need(v, scheduled.stage);
    }
    if (!dot) continue;
    if (dot->operands[0].form == OperandForm::Register)
      need(k[scheduled.op].operands[0], scheduled.stage);
    for (const DotOperand& operand : dot->operands)
      if (operand.form == OperandForm::Shared) need(operand.tile, scheduled.stage);
  }
}

std::optional<StepValues::Source> StepValues::source(Value v, int stage) const {
  if (!is_made_in_body(v)) return std::nullopt;
  if (const OpId def = k_[v].def) {
    const auto of_node = order_.stages.find(def);
    const int own = of_node == order_.stages.end() ? stage : of_node->second;
    return Source{v, v, own, stage - own};
  }
  if (k_[v].position == 0) return Source{v, v, 0, stage};
  const Value next = loop_nexts(k_, loop_)[carry_index(v)];
  const OpId def = k_[next].def;
  const int own = def && is_made_in_body(next) ? order_.stage(def) : 0;
  return Source{v, next, own, stage + 1 - own};
}

bool StepValues::is_of_this_step(Value v, int stage) const {
  const auto s = source(v, stage);
  return s && s->age == 0;
}

StepValues::Carried& StepValues::carry(const Source& s) {
  auto it = std::ranges::find(carried_, s.key, &Carried::key);
  if (it == carried_.end())
    it = carried_.insert(carried_.end(), Carried{s.key, s.made, s.stage, {}, false, false});
  Value init;  // of the iteration before the first one
  if (!k_[s.key].def && k_[s.key].position > 0)
    init = loop_inits(std::as_const(k_)[loop_])[carry_index(s.key)];
  while (static_cast<int>(it->of_age.size()) < s.age) it->of_age.push_back(init);
  return *it;
}

void StepValues::need(Value v, int stage) {
  const auto s = source(v, stage);
  if (!s || s->age == 0) return;
  Carried& c = carry(*s);
  (stage == 0 ? c.is_read_early : c.is_read_late) = true;
}

const StepValues::Carried* StepValues::find(Value key) const {
  const auto it = std::ranges::find(carried_, key, &Carried::key);
  return it == carried_.end() ? nullptr : &*it;
}

Value StepValues::now(Value made, int stage) const {
  if (!is_made_in_body(made)) return made;
  if (!k_[made].def && k_[made].position == 0) return iteration_;
  if (!k_[made].def) return read(made, 0);
  const ValueMap& map = made_[static_cast<std::size_t>(stage)];
  const auto it = map.find(made);
  if (it == map.end())
    throw InternalError("a step reads a value that no earlier step has computed");
  return it->second;
}

Value StepValues::read(Value v, int stage) const {
  const auto s = source(v, stage);
  if (!s) return v;
  if (s->age == 0) {
    // The first step has no late stages, so their carries still have the initial values of the
    // loop.
    const bool is_carry = !k_[v].def && k_[s->made].def;
    if (is_carry && is_made_in_body(s->made) &&
        !made_[static_cast<std::size_t>(s->stage)].contains(s->made))
      return loop_inits(std::as_const(k_)[loop_])[carry_index(v)];
    return now(s->made, s->stage);
  }
  const Carried* c = find(s->key);
  const auto age = static_cast<std::size_t>(s->age);
  if (!c || c->of_age.size() < age || !c->of_age[age - 1])
    throw InternalError("a step reads a value that no earlier step has computed");
  return c->of_age[age - 1];
}

void StepValues::begin_step(Value iteration) {
  iteration_ = iteration;
  for (ValueMap& map : made_) map.clear();
}

void StepValues::end_step() {
  const std::vector<Value> values = next();
  take(values);
}

std::vector<Value> StepValues::carried() const {
  std::vector<Value> all;
  for (const Carried& c : carried_) all.insert(all.end(), c.of_age.begin(), c.of_age.end());
  return all;
}

std::vector<Value> StepValues::next() const {
  std::vector<Value> all;
  for (const Carried& c : carried_) {
    const bool is_made = !is_made_in_body(c.made) || !k_[c.made].def ||
                         made_[static_cast<std::size_t>(c.stage)].contains(c.made);
    // The step does not have this stage: the value from before the first iteration is kept.
    all.push_back(is_made ? now(c.made, c.stage) : c.of_age.front());
    all.insert(all.end(), c.of_age.begin(), c.of_age.end() - 1);
  }
  return all;
}

void StepValues::take(std::span<const Value> values) {
  std::size_t next = 0;
  for (Carried& c : carried_)
    for (Value& v : c.of_age) v = values[next++];
}

/// Returns the age of a carry after the loop's steps, or in the additional step that the last stage
/// needs.
int StepValues::age_of_result(int stage) const {
  return order_.last_stage == 0 ? 1 : order_.last_stage - stage;
}

Value StepValues::result(std::size_t index) const {
  const Value carry = body_carries(k_, loop_)[index];
  const Source s = *source(carry, 0);
  const int age = age_of_result(s.stage);
  return age == 0 ? now(s.made, s.stage) : find(carry)->of_age[static_cast<std::size_t>(age - 1)];
}

void StepValues::begin_with(Value key, Value init) {
  for (Carried& c : carried_)
    if (c.key == key) c.of_age.assign(c.of_age.size(), init);
}

void StepValues::read_late_from(std::span<const Value> values) {
  std::size_t next = 0;
  for (Carried& c : carried_)
    for (Value& v : c.of_age) {
      if (c.is_read_late && !c.is_read_early) v = values[next];
      ++next;
    }
}

std::vector<Type> StepValues::carried_types() const {
  std::vector<Type> all;
  for (const Carried& c : carried_) all.insert(all.end(), c.of_age.size(), k_.type(c.key));
  return all;
}

}  // namespace tegula::ir
