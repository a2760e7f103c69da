#include "ir/analysis/producer_thread.h"

#include <algorithm>

#include "ir/op.h"

namespace tegula::ir {

bool is_producer_condition(const Kernel& k, Value condition) {
  const OpId def = k[condition].def;
  if (!def) return false;
  if (k[def].opcode == Opcode::ProducerThread) return true;
  return k[def].opcode == Opcode::And &&
         std::ranges::any_of(k[def].operands, [&](Value v) { return is_producer_condition(k, v); });
}

}  // namespace tegula::ir
