#include "ir/erase_unused.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/op.h"

namespace tegula::ir {

void erase_unused(Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def || k[def].erased || k[def].results.size() != 1 || !info(k[def].opcode).has(kPure) ||
      k[def].opcode == Opcode::Dot)
    return;
  if (is_used(k, v)) return;
  const std::vector<Value> operands(k[def].operands.begin(), k[def].operands.end());
  k.erase(def);
  for (Value operand : operands) erase_unused(k, operand);
}

void erase_unused(Kernel& k, std::vector<OpId> ops) {
  std::unordered_map<Value, int> uses;
  for (RegionId root : {k.launch(), k.body()})
    walk(k, root, [&](OpId op) {
      for (Value v : k[op].operands) ++uses[v];
    });
  const auto erase = [&](OpId op) {
    const OpData& d = k[op];
    if (d.erased || !is_removable(info(d.opcode)) ||
        std::ranges::any_of(d.results, [&](Value v) { return uses[v] > 0; }))
      return d.erased;
    for (Value v : d.operands) --uses[v];
    k.erase(op);
    return true;
  };
  // Iterates backwards, because most ops are computed from earlier ones.
  std::ranges::reverse(ops);
  while (std::erase_if(ops, erase) > 0) {
  }
}

}  // namespace tegula::ir
