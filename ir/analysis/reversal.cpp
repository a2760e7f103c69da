#include "ir/analysis/reversal.h"

#include "ir/ramp.h"

namespace tegula::ir {

bool is_reversal(const Kernel& k, const OpData& gather) {
  const auto axis = static_cast<std::size_t>(gather.attrs.i(AttrName::axis));
  const std::int64_t extent = k.type(gather.operands[0]).shape()[axis];
  OpId op = k[gather.operands[1]].def;
  for (; op; op = k[k[op].operands[0]].def) {
    const Opcode o = k[op].opcode;
    if (o != Opcode::Broadcast && o != Opcode::Reshape && o != Opcode::ExpandDims) break;
  }
  if (!op || k[op].opcode != Opcode::Sub) return false;
  const OpId numbers = k[k[op].operands[1]].def;
  return number_of(k, k[op].operands[0]) == static_cast<double>(extent - 1) && numbers &&
         k[numbers].opcode == Opcode::Arange && k[numbers].attrs.i(AttrName::start) == 0 &&
         k.type(k[numbers].results[0]).count() == extent;
}

}  // namespace tegula::ir
