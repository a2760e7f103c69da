#include "ir/schedule/node_cost.h"

#include "ir/access.h"
#include "ir/op.h"

namespace tegula::ir {
namespace {

/// Returns the tile whose elements the op processes, or a null value.
Value tile_of(const Kernel& k, const OpData& d) {
  const Value tile = d.opcode == Opcode::StoreView ? stored_value(d)
                     : d.opcode == Opcode::Reduce  ? d.operands[0]
                     : d.results.empty()           ? Value()
                                                   : d.results[0];
  return tile && k.type(tile).is_tile() ? tile : Value();
}

/// Adds the cost of an op. An element occupies a lane for one cycle, or for two if it moves to
/// another thread or to memory.
void add(NodeCost& cost, const Kernel& k, OpId op, int parts, const SmModel& m) {
  using enum Opcode;
  const OpData& d = k[op];
  const Value tile = tile_of(k, d);
  if (!tile) return;
  const double elements = static_cast<double>(k.type(tile).count()) / parts;
  if (d.is(Exp2, Log2, Rsqrt, Rcp))
    cost.exponentials += elements / m.exponentials;
  else if (d.is(StoreView, LoadView, Reduce, ConvertLayout))
    cost.lanes += 2 * elements / m.lanes;
  else if (info(d.opcode).family == Family::Elementwise)
    cost.lanes += elements / m.lanes;
}

void add_dot(NodeCost& cost, const Kernel& k, OpId op, Engine engine, int parts, const SmModel& m) {
  const OpData& d = k[op];
  const Type a = k.type(d.operands[0]);
  const double work = static_cast<double>(k.type(d.results[0]).count()) *
                      static_cast<double>(a.shape().back()) / parts;
  if (engine == Engine::Fma)
    cost.lanes += work / m.lanes;
  else
    cost.tensor += work * size_bits(a.dtype()) / 16 / m.multiply_adds;
}

}  // namespace

NodeCost cost_of(const Kernel& k, const Node& node, Engine engine, int parts, const SmModel& m) {
  NodeCost cost;
  for (OpId op : node.ops)
    if (node.kind == NodeKind::Dot)
      add_dot(cost, k, op, engine, parts, m);
    else
      add(cost, k, op, parts, m);
  return cost;
}

double bytes_of(const Kernel& k, const Node& node) {
  const Value tile = tile_of(k, k[node.ops.front()]);
  return tile ? static_cast<double>(k.type(tile).count() * size_bits(k.type(tile).dtype())) / 8 : 0;
}

}  // namespace tegula::ir
