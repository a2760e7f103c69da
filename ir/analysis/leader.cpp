#include "ir/analysis/leader.h"

#include <algorithm>

#include "ir/op.h"

namespace tegula::ir {

bool is_leader_condition(const Kernel& k, Value condition) {
  const OpId def = k[condition].def;
  if (!def) return false;
  if (k[def].opcode == Opcode::Leader) return true;
  return k[def].opcode == Opcode::And &&
         std::ranges::any_of(k[def].operands, [&](Value v) { return is_leader_condition(k, v); });
}

}  // namespace tegula::ir
