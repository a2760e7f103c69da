#include "ir/passes/dot_graph/peeled_iteration.h"

#include <algorithm>

namespace tegula::ir {

PeeledIteration::PeeledIteration(const Kernel& k, OpId loop) : k_(k), body_(k[loop].regions[0]) {
  const Value first = k[loop].operands[0];
  for (OpId op : k.ops(body_)) {
    if (asks(op, first) || depends_on_it(op)) conditions_.insert(k[op].results[0]);
    if (k[op].opcode == Opcode::Select && conditions_.contains(k[op].operands[0]))
      selects_.insert(op);
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

}  // namespace tegula::ir
