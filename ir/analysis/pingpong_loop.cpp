#include "ir/analysis/pingpong_loop.h"

#include "ir/op.h"

namespace tegula::ir {

OpId pingpong_loop(const Kernel& k) {
  for (OpId op : k.ops(k.body()))
    if (k[op].opcode == Opcode::For && k[op].attrs.i(AttrName::pingpong) == 1) return op;
  return {};
}

}  // namespace tegula::ir
