#include "ir/clone_op.h"

#include <utility>
#include <vector>

namespace tegula::ir {

void clone_op(Builder& b, OpId op, ValueMap& map) {
  Kernel& k = b.kernel();
  std::vector<Value> operands;
  for (Value v : k[op].operands) operands.push_back(mapped(map, v));
  std::vector<Type> types;
  for (Value v : k[op].results) types.push_back(k.type(v));
  const AttrList attrs = k[op].attrs;
  const std::vector<RegionId> regions(k[op].regions.begin(), k[op].regions.end());
  const Loc saved = std::exchange(b.loc, k[op].loc);
  const OpId made = b.create(k[op].opcode, operands, types, attrs);
  b.loc = saved;
  for (std::size_t i = 0; i < types.size(); ++i) map[k[op].results[i]] = k[made].results[i];
  for (RegionId r : regions) {
    const RegionId copy = k.add_region(made);
    for (std::size_t i = 0; i < k[r].args.size(); ++i) {
      const Value arg = k[r].args[i];
      map[arg] = k.add_arg(copy, k.type(arg));
    }
    Builder inner(k, copy);
    for (OpId o : k.ops(r)) clone_op(inner, o, map);
  }
}

}  // namespace tegula::ir
