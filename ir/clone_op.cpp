#include "ir/clone_op.h"

#include <vector>

namespace tegula::ir {
namespace {

/// Returns a copy in `to` of an op of `from`, with its regions; the copy is in no region yet. The
/// two may be one kernel, whose lists may be reallocated while ops are created.
OpId copy_op(const Kernel& from, OpId op, Kernel& to, ValueMap& map) {
  std::vector<Value> operands;
  operands.reserve(from[op].operands.size());
  for (Value v : from[op].operands) operands.push_back(mapped(map, v));
  std::vector<Type> types;
  for (Value v : from[op].results) types.push_back(from.type(v));
  const AttrList attrs = from[op].attrs;
  const OpId made = to.make_op(from[op].opcode, operands, types, from[op].loc);
  to[made].attrs = attrs;
  for (std::size_t i = 0; i < types.size(); ++i) map[from[op].results[i]] = to[made].results[i];
  const std::vector<RegionId> regions(from[op].regions.begin(), from[op].regions.end());
  for (RegionId r : regions) {
    const RegionId copy = to.add_region(made);
    for (std::size_t i = 0; i < from[r].args.size(); ++i) {
      const Value arg = from[r].args[i];
      map[arg] = to.add_arg(copy, from.type(arg));
    }
    for (OpId o : from.ops(r)) to.append(copy, copy_op(from, o, to, map));
  }
  return made;
}

}  // namespace

void clone_op(Builder& b, OpId op, ValueMap& map) {
  b.place(copy_op(b.kernel(), op, b.kernel(), map));
}

Value clone_computation(Builder& b, Value v, ValueMap& map,
                        const std::function<Value(Value)>& instead) {
  if (const auto known = map.find(v); known != map.end()) return known->second;
  if (const Value other = instead(v)) return map[v] = other;
  const OpId def = b.kernel()[v].def;
  const std::vector<Value> operands(b.kernel()[def].operands.begin(),
                                    b.kernel()[def].operands.end());
  for (Value o : operands) clone_computation(b, o, map, instead);
  clone_op(b, def, map);
  return map.at(v);
}

Kernel clone(const Kernel& k) {
  Kernel to(k.info.name, k.info.form);
  to.info = k.info;
  ValueMap map;
  map.reserve(k.value_count());
  for (const Param& p : k.params()) map[p.value] = to.add_param(p.name, k.type(p.value), p.attrs);
  for (const auto& [region, copy] :
       {std::pair(k.launch(), to.launch()), std::pair(k.body(), to.body())})
    for (OpId op : k.ops(region)) to.append(copy, copy_op(k, op, to, map));
  return to;
}

}  // namespace tegula::ir
