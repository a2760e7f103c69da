#include "dsl/block_mask/mask_wrap.h"

#include "ir/op_table.h"
#include "tegula/tegula.h"

namespace tegula {

using ir::Interval;
using ir::MaskNode;
using ir::Opcode;

MaskWrap::MaskWrap(const MaskLimits& limits, const Tile& first, const Tile& last,
                   const Tile& kv_length)
    : limits_(limits),
      first_(cast<i64>(first)),
      last_(cast<i64>(last)),
      length_(cast<i64>(kv_length)) {}

Tile MaskWrap::never(const std::vector<ir::MaskNodeId>& nodes) {
  fits_.reset();
  for (const ir::MaskNodeId id : nodes) bounds(id);
  return fits_ ? *fits_ : Tile(true);
}

void MaskWrap::require(const Tile& condition) { fits_ = fits_ ? *fits_ && condition : condition; }

MaskWrap::Wide MaskWrap::bounds(ir::MaskNodeId id) {
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
  if (!limits_.may_wrap(id)) return w;
  const Interval all = Interval::of(DType::i32);
  require(w.lo >= Tile(all.lo) && w.hi <= Tile(all.hi));
  // What is beyond is refused already; operands of 32 bits again.
  return {max(w.lo, Tile(all.lo)), min(w.hi, Tile(all.hi))};
}

MaskWrap::Wide MaskWrap::operation(const MaskNode& n) {
  // The ops that MaskLimits::is_checkable follows.
  static constexpr auto kTable = ir::op_table<Fn>({{Opcode::Neg, &MaskWrap::negation},
                                                   {Opcode::Add, &MaskWrap::sum},
                                                   {Opcode::Sub, &MaskWrap::difference},
                                                   {Opcode::Mul, &MaskWrap::product},
                                                   {Opcode::Div, &MaskWrap::division},
                                                   {Opcode::Rem, &MaskWrap::division}});
  const Wide a = bounds(n.in[0]), b = n.operands > 1 ? bounds(n.in[1]) : a;
  return (this->*kTable[static_cast<std::size_t>(n.opcode)])(a, b);
}

MaskWrap::Wide MaskWrap::negation(const Wide& a, const Wide&) { return {-a.hi, -a.lo}; }
MaskWrap::Wide MaskWrap::sum(const Wide& a, const Wide& b) { return {a.lo + b.lo, a.hi + b.hi}; }
MaskWrap::Wide MaskWrap::difference(const Wide& a, const Wide& b) {
  return {a.lo - b.hi, a.hi - b.lo};
}
MaskWrap::Wide MaskWrap::product(const Wide& a, const Wide& b) {
  const Tile x = a.lo * b.lo, y = a.lo * b.hi, z = a.hi * b.lo, w = a.hi * b.hi;
  return {min(min(x, y), min(z, w)), max(max(x, y), max(z, w))};
}
MaskWrap::Wide MaskWrap::division(const Wide& a, const Wide& b) {
  require(b.lo >= 1);
  const Tile zero(std::int64_t{0});
  return {min(a.lo, zero), max(a.hi, zero)};
}

}  // namespace tegula
