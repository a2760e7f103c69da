#include "ir/analysis/mask/axes.h"

#include <algorithm>

#include "ir/analysis/mask/transfer.h"
#include "ir/op_table.h"

namespace tegula::ir {

namespace {

using Kind = MaskNode::Kind;

/// Requirement on an op's second operand under which the result rises with the first operand. Ops
/// without a row are unknown.
enum class RisingCondition : std::uint8_t { Unknown, None, Rising, Fixed, Positive };
constexpr auto kRising = op_table<RisingCondition>({
    {Opcode::Add, RisingCondition::Rising},
    {Opcode::Min, RisingCondition::Rising},
    {Opcode::Max, RisingCondition::Rising},
    {Opcode::Sub, RisingCondition::Fixed},
    {Opcode::Mul, RisingCondition::Positive},
    {Opcode::Div, RisingCondition::Positive},
    {Opcode::Cast, RisingCondition::None},
});

MaskAxis join_axes(MaskAxis a, MaskAxis b) {
  if (a == MaskAxis::Unknown || b == MaskAxis::Unknown) return MaskAxis::Unknown;
  if (a == MaskAxis::Uniform || a == b) return b;
  return b == MaskAxis::Uniform ? a : MaskAxis::Both;
}

/// The ops that the analyses support have no attributes other than a comparison's predicate.
bool is_computable(const MaskNode& n) {
  const bool is_known = n.kind != Kind::Op || MaskTransfer::of(n.opcode) != nullptr;
  return is_known && (is_bool(n.dtype) || is_integer(n.dtype));
}

MaskAxis own_side(const MaskNode& n, const std::vector<bool>& is_scalar, bool heads_are_rows) {
  switch (n.kind) {
    case Kind::Head:
      return heads_are_rows ? MaskAxis::Query : MaskAxis::Uniform;
    case Kind::Query:
      return MaskAxis::Query;
    case Kind::Key:
      return MaskAxis::Key;
    case Kind::Unknown:
      return MaskAxis::Unknown;
    case Kind::Param:
      return is_scalar[static_cast<std::size_t>(n.value)] ? MaskAxis::Uniform : MaskAxis::Unknown;
    default:
      return is_computable(n) ? MaskAxis::Uniform : MaskAxis::Unknown;
  }
}

}  // namespace

MaskAxisDependence::MaskAxisDependence(const MaskExpr& e, const std::vector<bool>& is_scalar,
                                       bool heads_are_rows)
    : expr(e) {
  const auto& nodes = expr.nodes;
  for (const MaskNode& n : nodes) {
    MaskAxis mine = own_side(n, is_scalar, heads_are_rows);
    for (std::size_t i = 0; i < n.operands; ++i) mine = join_axes(mine, side[n.in[i]]);
    // A table at an index that depends on both axes can be computed neither exactly nor as an
    // interval.
    if (n.kind == Kind::Table && mine == MaskAxis::Both) mine = MaskAxis::Unknown;
    side.push_back(mine);
  }
  is_above.assign(nodes.size(), false);
  visit(expr.root);
}

void MaskAxisDependence::visit(MaskNodeId id) {
  if (is_above[id]) return;
  const MaskAxis s = side[id];
  if (s == MaskAxis::Uniform || s == MaskAxis::Query || s == MaskAxis::Key) {
    auto& leaves = s == MaskAxis::Query ? query_leaves
                   : s == MaskAxis::Key ? key_leaves
                                        : launch_leaves;
    if (std::ranges::find(leaves, id) == leaves.end()) leaves.push_back(id);
    return;
  }
  is_above[id] = true;
  const MaskNode& n = expr[id];
  if (n.kind != Kind::Op) return;
  for (std::size_t i = 0; i < n.operands; ++i) visit(n.in[i]);
}

int MaskAxisDependence::pieces(MaskAxis s) const {
  const auto& of = leaves(s);
  return std::ranges::any_of(of, [&](MaskNodeId id) { return may_fall(id); }) ? 2 : 1;
}

bool MaskAxisDependence::is_plain_key() const {
  return key_leaves.empty() || (key_leaves.size() == 1 && expr[key_leaves[0]].kind == Kind::Key);
}

/// Returns true unless the values are known to ascend with the position.
bool MaskAxisDependence::may_fall(MaskNodeId id) const {
  const MaskNode& n = expr[id];
  if (side[id] == MaskAxis::Uniform || n.kind == Kind::Query || n.kind == Kind::Key ||
      n.kind == Kind::Head)
    return false;
  if (is_bool(n.dtype) || n.kind == Kind::Table) return true;
  const RisingCondition second = kRising[static_cast<std::size_t>(n.opcode)];
  if (second == RisingCondition::Unknown || may_fall(n.in[0])) return true;
  if (second == RisingCondition::Rising) return may_fall(n.in[1]);
  if (second == RisingCondition::Fixed) return side[n.in[1]] != MaskAxis::Uniform;
  const MaskNode& by = expr[n.in[1]];
  return second == RisingCondition::Positive && !(by.kind == Kind::Const && by.value > 0);
}

}  // namespace tegula::ir
