#include "dsl/block_mask/mask_overflow.h"

#include "ir/op_table.h"

namespace tegula {

using ir::Interval;
using ir::MaskNode;
using ir::Opcode;
namespace rules = ir::interval_rules;

MaskOverflow::MaskOverflow(const ir::SolvedConditions& limits, const MaskFunction& mask,
                           const Tile& first, const Tile& last, const Tile& seqlen_kv)
    : limits_(limits),
      mask_(mask),
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
      return point(cast<i64>(mask_.scalar(n)));
    case MaskNode::Kind::Const:
      return point(Tile(n.value));
    default:
      break;
  }
  const Wide w = operation(n);
  if (!limits_.may_overflow(id)) return w;
  const Interval all = Interval::of(DType::i32);
  require(w.lo >= Tile(all.lo) && w.hi <= Tile(all.hi));
  // Values out of range are already rejected; operands fit in 32 bits again.
  return {max(w.lo, Tile(all.lo)), min(w.hi, Tile(all.hi))};
}

MaskOverflow::Wide MaskOverflow::operation(const MaskNode& n) {
  using Rule = Wide (*)(const Wide&, const Wide&);
  constexpr Rule kQuotient = [](const Wide& a, const Wide&) { return rules::towards_zero(a); };
  // The ops that SolvedConditions::is_checkable supports.
  static constexpr auto kRules = ir::op_table<Rule>(
      {{Opcode::Neg, [](const Wide& a, const Wide&) { return rules::negation(a); }},
       {Opcode::Add, [](const Wide& a, const Wide& b) { return rules::sum(a, b); }},
       {Opcode::Sub, [](const Wide& a, const Wide& b) { return rules::difference(a, b); }},
       {Opcode::Mul, [](const Wide& a, const Wide& b) { return rules::product(a, b); }},
       {Opcode::Div, kQuotient},
       {Opcode::Rem, kQuotient}});
  const Wide a = bounds(n.in[0]), b = n.operands > 1 ? bounds(n.in[1]) : a;
  if (n.opcode == Opcode::Div || n.opcode == Opcode::Rem) require(b.lo >= 1);
  return kRules[static_cast<std::size_t>(n.opcode)](a, b);
}

}  // namespace tegula
