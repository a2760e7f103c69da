#include "ir/schedule/node_cost.h"

#include "ir/op.h"
#include "ir/op_table.h"

namespace tegula::ir {
namespace {

/// The unit that an op keeps busy: one lane a cycle and element, unless the table says more.
enum class Unit : std::uint8_t { Lanes, LanesTwice, Exponentials };

Unit unit_of(Opcode op) {
  using enum Opcode;
  static constexpr auto kUnits = op_table<Unit>({{Exp2, Unit::Exponentials},
                                                 {Log2, Unit::Exponentials},
                                                 {Rsqrt, Unit::Exponentials},
                                                 {Rcp, Unit::Exponentials},
                                                 {StoreView, Unit::LanesTwice},
                                                 {LoadView, Unit::LanesTwice},
                                                 {Reduce, Unit::LanesTwice},
                                                 {ConvertLayout, Unit::LanesTwice}});
  return kUnits[static_cast<std::size_t>(op)];
}

/// The tile whose elements the op goes through; none if it has none.
Value tile_of(const Kernel& k, const OpData& d) {
  const Value tile = d.opcode == Opcode::StoreView ? d.operands[1]
                     : d.opcode == Opcode::Reduce  ? d.operands[0]
                     : d.results.empty()           ? Value()
                                                   : d.results[0];
  return tile && k.type(tile).is_tile() ? tile : Value();
}

void add(NodeCost& cost, const Kernel& k, OpId op, int parts, const SmModel& m) {
  const OpData& d = k[op];
  const Value tile = tile_of(k, d);
  if (!tile) return;
  const double elements = static_cast<double>(k.type(tile).count()) / parts;
  const Unit unit = unit_of(d.opcode);
  if (unit == Unit::Exponentials)
    cost.exponentials += elements / m.exponentials;
  else if (unit == Unit::LanesTwice)
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
  const OpData& d = k[node.ops.front()];
  const Type tile = k.type(node.kind == NodeKind::Store ? d.operands[1] : d.results[0]);
  return tile.is_tile() ? static_cast<double>(tile.count() * size_bits(tile.dtype())) / 8 : 0;
}

}  // namespace tegula::ir
