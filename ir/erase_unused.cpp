#include "ir/erase_unused.h"

#include <algorithm>
#include <vector>

#include "ir/op.h"

namespace tegula::ir {

void erase_unused(Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def || k[def].erased || k[def].results.size() != 1 || !info(k[def].opcode).has(kPure) ||
      k[def].opcode == Opcode::Dot)
    return;
  bool used = false;
  walk(k, k.body(), [&](OpId op) { used = used || std::ranges::count(k[op].operands, v) > 0; });
  if (used) return;
  const std::vector<Value> operands(k[def].operands.begin(), k[def].operands.end());
  k.erase(def);
  for (Value operand : operands) erase_unused(k, operand);
}

}  // namespace tegula::ir
