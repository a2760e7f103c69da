#include "ir/analysis/constant_read.h"

namespace tegula::ir {

bool is_constant_read(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  return d.opcode == Opcode::LoadView && k.type(d.results[0]).is_scalar() &&
         k.type(d.operands[0]).view_facts().access == Access::In;
}

}  // namespace tegula::ir
