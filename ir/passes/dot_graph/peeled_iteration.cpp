#include "ir/passes/dot_graph/peeled_iteration.h"

#include <algorithm>

namespace tegula::ir {

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

}  // namespace tegula::ir
