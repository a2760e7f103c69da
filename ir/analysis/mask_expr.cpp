// From IR to the graph of a mask.
#include "ir/analysis/mask_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace tegula::ir {
namespace {

using Kind = MaskNode::Kind;

bool is_number(Type t) {
  if (!t.is_scalar() && !t.is_tile()) return false;
  // u64 does not fit the analyses' 64-bit signed numbers.
  return !t.is_pointer() && (is_bool(t.dtype()) || is_integer(t.dtype())) &&
         t.dtype() != DType::u64;
}

class Importer {
 public:
  Importer(const Kernel& k, const MaskRoles& roles) : k_(k) {
    role(roles.batch, Kind::Batch, kOnBatch);
    role(roles.head, Kind::Head, kOnHead);
    role(roles.query, Kind::Query, kOnQuery);
    role(roles.key, Kind::Key, kOnKey);
  }

  MaskExpr run(Value root) {
    expr_.root = visit(root);
    return std::move(expr_);
  }

 private:
  void role(Value v, Kind kind, MaskDependence depends) {
    if (!v) return;
    MaskNode n;
    n.kind = is_number(k_.type(v)) ? kind : Kind::Unknown;
    n.dtype = dtype_of_value(v);
    n.depends = static_cast<std::uint8_t>(n.kind == kind ? depends : depends | kOnUnknown);
    ids_.emplace(v, expr_.add(n));
  }

  DType dtype_of_value(Value v) const {
    const Type t = k_.type(v);
    return t.is_scalar() || t.is_tile() ? t.dtype() : DType::i1;
  }

  MaskNodeId visit(Value v) {
    if (const auto it = ids_.find(v); it != ids_.end()) return it->second;
    const MaskNodeId id = make(v);
    ids_.emplace(v, id);
    return id;
  }

  MaskNodeId make(Value v) {
    const OpId def = k_[v].def;
    if (!is_number(k_.type(v)) || !def) return leaf(v);
    const OpData& d = k_[def];
    if (d.opcode == Opcode::Const) return constant(v, d);
    const bool is_shape = d.opcode == Opcode::ExpandDims || d.opcode == Opcode::Reshape ||
                          d.opcode == Opcode::Permute;
    if (d.opcode == Opcode::Splat || d.opcode == Opcode::Broadcast) return visit(d.operands[0]);
    if (is_shape) {
      // Moving elements about is harmless only where all are equal.
      const MaskNodeId of = visit(d.operands[0]);
      return expr_.depends(of, kOnQuery | kOnKey | kOnUnknown) ? unknown(v) : of;
    }
    const Family family = info(d.opcode).family;
    const bool known =
        family == Family::Elementwise && d.operands.size() <= 3 &&
        std::ranges::all_of(d.operands, [&](Value o) { return is_number(k_.type(o)); });
    return known ? operation(v, d) : leaf(v);
  }

  MaskNodeId constant(Value v, const OpData& d) {
    const auto* value = std::get_if<std::int64_t>(d.attrs.find(AttrName::value));
    if (!value) return unknown(v);
    MaskNode n;
    n.kind = Kind::Const;
    n.dtype = k_.type(v).dtype();
    n.value = is_bool(n.dtype) ? *value & 1 : *value;
    return expr_.add(n);
  }

  MaskNodeId operation(Value v, const OpData& d) {
    MaskNode n;
    n.kind = Kind::Op;
    n.opcode = d.opcode;
    n.dtype = k_.type(v).dtype();
    n.operands = static_cast<std::uint8_t>(d.operands.size());
    for (std::size_t i = 0; i < d.operands.size(); ++i) {
      n.in[i] = visit(d.operands[i]);
      n.depends |= expr_[n.in[i]].depends;
    }
    if (d.opcode == Opcode::Cmp) set_predicate(n, d.attrs.s(AttrName::pred));
    return expr_.add(n);
  }

  static void set_predicate(MaskNode& n, std::string_view pred) {
    if (pred == "gt" || pred == "ge") std::swap(n.in[0], n.in[1]);
    n.pred = pred == "eq"                   ? MaskPred::Eq
             : pred == "ne"                 ? MaskPred::Ne
             : pred == "lt" || pred == "gt" ? MaskPred::Lt
                                            : MaskPred::Le;
  }

  /// A value that is not taken apart.
  MaskNodeId leaf(Value v) {
    if (!k_.type(v).is_scalar() || !is_number(k_.type(v)) || !is_uniform(v, 0)) return unknown(v);
    MaskNode n;
    n.kind = Kind::Param;
    n.dtype = k_.type(v).dtype();
    n.depends = kOnParam;
    n.value = static_cast<std::int64_t>(expr_.params.size());
    expr_.params.push_back(v);
    return expr_.add(n);
  }

  MaskNodeId unknown(Value v) {
    MaskNode n;
    n.dtype = dtype_of_value(v);
    n.depends = kOnUnknown | kOnQuery | kOnKey;
    n.value = v.index;  // two unknown values are not the same
    return expr_.add(n);
  }

  /// True if the value does not vary with b, h, q or kv, nor from one iteration of a loop to the
  /// next.
  bool is_uniform(Value v, int depth) const {
    constexpr int kMaxDepth = 64;
    if (depth > kMaxDepth) return false;
    if (const auto it = ids_.find(v); it != ids_.end())
      return !expr_.depends(it->second,
                            kOnBatch | kOnHead | kOnQuery | kOnKey | kOnTable | kOnUnknown);
    const ValueData& data = k_[v];
    if (!data.def) return !data.region || !k_[data.region].owner;
    const OpData& d = k_[data.def];
    if (!d.regions.empty() || !info(d.opcode).has(kPure)) return false;
    return std::ranges::all_of(d.operands, [&](Value o) { return is_uniform(o, depth + 1); });
  }

  const Kernel& k_;
  MaskExpr expr_;
  std::unordered_map<Value, MaskNodeId> ids_;
};

}  // namespace

MaskNodeId MaskExpr::add(MaskNode node) {
  const auto it = std::ranges::find(nodes, node);
  if (it != nodes.end()) return static_cast<MaskNodeId>(it - nodes.begin());
  nodes.push_back(node);
  return static_cast<MaskNodeId>(nodes.size() - 1);
}

std::string MaskExpr::str(MaskNodeId id) const {
  const MaskNode& n = nodes[id];
  switch (n.kind) {
    case Kind::Batch:
      return "b";
    case Kind::Head:
      return "h";
    case Kind::Query:
      return "q";
    case Kind::Key:
      return "kv";
    case Kind::Param:
      return fmt::format("p{}", n.value);
    case Kind::Const:
      return fmt::format("{}", n.value);
    case Kind::Table:
      return fmt::format("table{}[{}]", n.value, str(n.in[0]));
    case Kind::Unknown:
      return "?";
    case Kind::Op:
      break;
  }
  constexpr std::array kPredicates{"lt", "le", "eq", "ne"};
  std::string text(n.is_op(Opcode::Cmp) ? kPredicates[static_cast<std::size_t>(n.pred)]
                                        : info(n.opcode).mnemonic);
  text += '(';
  for (std::size_t i = 0; i < n.operands; ++i) text += (i ? ", " : "") + str(n.in[i]);
  return text + ')';
}

MaskExpr import_mask(const Kernel& k, Value root, const MaskRoles& roles) {
  return Importer(k, roles).run(root);
}

}  // namespace tegula::ir
