#include "dsl/block_mask/mask_overflow.h"

#include "ir/op_table.h"
#include "tegula/tegula.h"

namespace tegula {

using ir::Interval;
using ir::MaskNode;
using ir::Opcode;

MaskOverflow::MaskOverflow(const SolvedConditions& limits, const Tile& first, const Tile& last,
                           const Tile& seqlen_kv)
    : limits_(limits),
      first_(cast<i64>(first)),
      last_(cast<i64>(last)),
      length_(cast<i64>(seqlen_kv)) {}

Tile MaskOverflow::no_overflow(const std::vector<ir::MaskNodeId>& nodes) {
  fits_.reset();
  for (const ir::MaskNodeId id : nodes) bounds(id);
  return fits_ ? *fits_ : Tile(true);
}

void MaskOverflow::require(const Tile& condition) {
  fits_ = fits_ ? *fits_ && condition : condition;
}

MaskOverflow::Wide MaskOverflow::bounds(ir::MaskNodeId id) {
  const MaskNode& n = limits_.node(id);
  const auto point = [](const Tile& t) { return Wide{t, t}; };
  switch (n.kind) {
    case MaskNode::Kind::Query:
      return {first_, last_};
    case MaskNode::Kind::Key:
      return {Tile(std::int64_t{0}), length_};
    case MaskNode::Kind::Param:
      return point(cast<i64>(detail::captured_scalar(limits_.number(id), {})));
    case MaskNode::Kind::Const:
      return point(Tile(n.value));
    default:
      break;
  }
  const Wide w = operation(n);
  if (!limits_.may_overflow(id)) return w;
  const Interval all = Interval::of(DType::i32);
  require(w.lo >= Tile(all.lo) && w.hi <= Tile(all.hi));
  // Numbers beyond the type are refused already; clamps to operands of 32 bits again.
  return {max(w.lo, Tile(all.lo)), min(w.hi, Tile(all.hi))};
}

MaskOverflow::Wide MaskOverflow::operation(const MaskNode& n) {
  // The ops that SolvedConditions::is_checkable follows.
  static constexpr auto kTable = ir::op_table<Fn>({{Opcode::Neg, &MaskOverflow::negation},
                                                   {Opcode::Add, &MaskOverflow::sum},
                                                   {Opcode::Sub, &MaskOverflow::difference},
                                                   {Opcode::Mul, &MaskOverflow::product},
                                                   {Opcode::Div, &MaskOverflow::division},
                                                   {Opcode::Rem, &MaskOverflow::division}});
  const Wide a = bounds(n.in[0]), b = n.operands > 1 ? bounds(n.in[1]) : a;
  return (this->*kTable[static_cast<std::size_t>(n.opcode)])(a, b);
}

MaskOverflow::Wide MaskOverflow::negation(const Wide& a, const Wide&) { return {-a.hi, -a.lo}; }
MaskOverflow::Wide MaskOverflow::sum(const Wide& a, const Wide& b) {
  return {a.lo + b.lo, a.hi + b.hi};
}
MaskOverflow::Wide MaskOverflow::difference(const Wide& a, const Wide& b) {
  return {a.lo - b.hi, a.hi - b.lo};
}
MaskOverflow::Wide MaskOverflow::product(const Wide& a, const Wide& b) {
  const Tile x = a.lo * b.lo, y = a.lo * b.hi, z = a.hi * b.lo, w = a.hi * b.hi;
  return {min(min(x, y), min(z, w)), max(max(x, y), max(z, w))};
}
MaskOverflow::Wide MaskOverflow::division(const Wide& a, const Wide& b) {
  require(b.lo >= 1);
  const Tile zero(std::int64_t{0});
  return {min(a.lo, zero), max(a.hi, zero)};
}

}  // namespace tegula
