#include "ir/analysis/mask/axes.h"

#include <algorithm>

#include "ir/analysis/mask/transfer.h"
#include "ir/op_table.h"

namespace tegula::ir {

using Kind = MaskNode::Kind;

namespace {

/// What an op's second operand must be, so that the result rises with the first one. Of ops without
/// a row that is not known.
enum class Second : std::uint8_t { Unknown, None, Rising, Fixed, Positive };
constexpr auto kRising = op_table<Second>({
    {Opcode::Add, Second::Rising},
    {Opcode::Min, Second::Rising},
    {Opcode::Max, Second::Rising},
    {Opcode::Sub, Second::Fixed},
    {Opcode::Mul, Second::Positive},
    {Opcode::Div, Second::Positive},
    {Opcode::Cast, Second::None},
});

MaskSide join(MaskSide a, MaskSide b) {
  if (a == MaskSide::Unknown || b == MaskSide::Unknown) return MaskSide::Unknown;
  if (a == MaskSide::Launch || a == b) return b;
  return b == MaskSide::Launch ? a : MaskSide::Both;
}

/// Of what the analyses know, ops have no other attributes than a comparison's predicate.
bool is_computable(const MaskNode& n) {
  const bool is_known = n.kind != Kind::Op || MaskTransfer::of(n.opcode) != nullptr;
  return is_known && (is_bool(n.dtype) || is_integer(n.dtype));
}

MaskSide own_side(const MaskNode& n, const std::vector<bool>& is_scalar, bool heads_are_rows) {
  switch (n.kind) {
    case Kind::Head:
      return heads_are_rows ? MaskSide::Query : MaskSide::Launch;
    case Kind::Query:
      return MaskSide::Query;
    case Kind::Key:
      return MaskSide::Key;
    case Kind::Unknown:
      return MaskSide::Unknown;
    case Kind::Param:
      return is_scalar[static_cast<std::size_t>(n.value)] ? MaskSide::Launch : MaskSide::Unknown;
    default:
      return is_computable(n) ? MaskSide::Launch : MaskSide::Unknown;
  }
}

}  // namespace

MaskSides::MaskSides(const MaskExpr& e, const std::vector<bool>& is_scalar, bool heads_are_rows)
    : expr(e) {
  const auto& nodes = expr.nodes;
  for (const MaskNode& n : nodes) {
    MaskSide mine = own_side(n, is_scalar, heads_are_rows);
    for (std::size_t i = 0; i < n.operands; ++i) mine = join(mine, side[n.in[i]]);
    // A table at an index of both axes is neither exact nor an interval.
    if (n.kind == Kind::Table && mine == MaskSide::Both) mine = MaskSide::Unknown;
    side.push_back(mine);
  }
  is_above.assign(nodes.size(), false);
  visit(expr.root);
}

void MaskSides::visit(MaskNodeId id) {
  if (is_above[id]) return;
  const MaskSide s = side[id];
  if (s == MaskSide::Launch || s == MaskSide::Query || s == MaskSide::Key) {
    auto& leaves = s == MaskSide::Query ? query_leaves
                   : s == MaskSide::Key ? key_leaves
                                        : launch_leaves;
    if (std::ranges::find(leaves, id) == leaves.end()) leaves.push_back(id);
    return;
  }
  is_above[id] = true;
  const MaskNode& n = expr[id];
  if (n.kind != Kind::Op) return;
  for (std::size_t i = 0; i < n.operands; ++i) visit(n.in[i]);
}

int MaskSides::pieces(MaskSide s) const {
  const auto& of = leaves(s);
  return std::ranges::any_of(of, [&](MaskNodeId id) { return may_fall(id); }) ? 2 : 1;
}

bool MaskSides::is_plain_key() const {
  return key_leaves.empty() || (key_leaves.size() == 1 && expr[key_leaves[0]].kind == Kind::Key);
}

/// Whether the values may be other than ascending with the position.
bool MaskSides::may_fall(MaskNodeId id) const {
  const MaskNode& n = expr[id];
  if (side[id] == MaskSide::Launch || n.kind == Kind::Query || n.kind == Kind::Key ||
      n.kind == Kind::Head)
    return false;
  if (is_bool(n.dtype) || n.kind == Kind::Table) return true;
  const Second second = kRising[static_cast<std::size_t>(n.opcode)];
  if (second == Second::Unknown || may_fall(n.in[0])) return true;
  if (second == Second::Rising) return may_fall(n.in[1]);
  if (second == Second::Fixed) return side[n.in[1]] != MaskSide::Launch;
  const MaskNode& by = expr[n.in[1]];
  return second == Second::Positive && !(by.kind == Kind::Const && by.value > 0);
}

}  // namespace tegula::ir
