#include "ir/passes/mma_loop/peeled_iteration.h"

#include <algorithm>

#include "ir/erase_unused.h"

namespace tegula::ir {

PeeledIteration::PeeledIteration(Kernel& k, OpId loop) : k_(k), body_(k[loop].regions[0]) {
  const Value first = k[loop].operands[0];
  for (OpId op : k.ops(body_)) {
    if (asks(op, first) || depends_on_it(op)) conditions_.insert(k[op].results[0]);
    if (k[op].opcode == Opcode::Select && conditions_.contains(k[op].operands[0]))
      selects_.push_back(op);
  }
}

bool PeeledIteration::asks(OpId op, Value first) const {
  const OpData& d = k_[op];
  const Value step = k_[body_].args[0];
  return d.opcode == Opcode::Cmp && d.attrs.s(AttrName::pred) == "eq" &&
         std::ranges::is_permutation(d.operands, std::initializer_list<Value>{step, first});
}

/// The same condition as a tile.
bool PeeledIteration::depends_on_it(OpId op) const {
  using enum Opcode;
  const OpData& d = k_[op];
  const bool repeats = d.is(Splat, Broadcast, ExpandDims, ConvertLayout);
  return repeats && conditions_.contains(d.operands[0]);
}

bool PeeledIteration::enter(OpId op, ValueMap& map) const {
  if (std::ranges::find(selects_, op) == selects_.end()) return false;
  map[k_[op].results[0]] = mapped(map, k_[op].operands[1]);
  return true;
}

void PeeledIteration::drop() {
  for (OpId op : selects_) {
    if (k_[op].erased) continue;  // folded by another choice in the first iteration
    const Value condition = k_[op].operands[0], chosen = k_[op].operands[1],
                otherwise = k_[op].operands[2];
    k_.replace_all_uses(k_[op].results[0], otherwise);
    k_.erase(op);
    erase_unused(k_, chosen);
    erase_unused(k_, condition);
  }
}

}  // namespace tegula::ir
