#include "ir/analysis/alternating.h"

#include "ir/op.h"

namespace tegula::ir {

OpId alternating_loop(const Kernel& k) {
  for (OpId op : k.ops(k.body()))
    if (k[op].opcode == Opcode::For && k[op].attrs.i(AttrName::alternate) == 1) return op;
  return {};
}

}  // namespace tegula::ir
