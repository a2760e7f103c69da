#include "dsl/block_mask/mask_values.h"

#include <array>

#include "dsl/elementwise.h"
#include "tegula/tegula.h"

namespace tegula {

using dsl::Tracer;
using ir::MaskNode;
using ir::MaskPred;
using Kind = MaskNode::Kind;

MaskValues::MaskValues(const MaskFunction& source, const Tile& b, const Tile& h,
                       const Tile& position)
    : source_(source),
      b_(cast<i32>(b)),
      h_(cast<i32>(h)),
      position_(cast<i32>(position)),
      values_(source.expr.nodes.size()) {}

Tile MaskValues::at(ir::MaskNodeId id) { return Tracer::current()->tile(value(id)); }

ir::Value MaskValues::value(ir::MaskNodeId id) {
  if (values_[id]) return values_[id];
  const MaskNode& n = source_.expr[id];
  Tracer& t = *Tracer::current();
  const auto made = [&]() -> ir::Value {
    switch (n.kind) {
      case Kind::Batch:
        return t.value(b_);
      case Kind::Head:
        return t.value(h_);
      case Kind::Query:
      case Kind::Key:
        return t.value(position_);
      case Kind::Param:
        return t.value(source_.scalar(n));
      case Kind::Const:
        return t.build.constant(ir::Type::scalar(n.dtype), n.value);
      case Kind::Table:
        return entry(n);
      default:
        return operation(n);
    }
  }();
  return values_[id] = made;
}

ir::Value MaskValues::operation(const MaskNode& n) {
  Tracer& t = *Tracer::current();
  std::array<ir::Value, 3> in;
  for (std::size_t i = 0; i < n.operands; ++i) in[i] = value(n.in[i]);
  const std::span<ir::Value> used(in.data(), n.operands);
  dsl::broadcast_shapes(t, "mask", used, t.build.loc);
  if (n.opcode == ir::Opcode::Cast) return t.build.cast(in[0], n.dtype);
  if (n.opcode == ir::Opcode::Cmp) {
    constexpr std::array kPredicates{"lt", "le", "eq", "ne"};
    return t.build.cmp(kPredicates[static_cast<std::size_t>(n.pred)], in[0], in[1]);
  }
  if (n.opcode == ir::Opcode::Bitcast)
    return t.build.op(n.opcode, {in[0]}, t.kernel.type(in[0]).with_dtype(n.dtype));
  return t.build.op(n.opcode, std::span<const ir::Value>(used));
}

/// Reads an entry; outside the table it is 0, as in the mask.
ir::Value MaskValues::entry(const MaskNode& n) {
  Tracer& t = *Tracer::current();
  const Tensor& table = *source_.tables[static_cast<std::size_t>(n.value)];
  // The element type is that of the parameter, not of the view.
  const In<i32, 1> entries(detail::captured_tensor(table, table.dtype(), 1, t.build.loc));
  return t.value(fill_absent(entries(t.tile(value(n.in[0]))), 0));
}

}  // namespace tegula
