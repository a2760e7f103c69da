// Imports a mask from the IR.
#include "ir/analysis/mask/expr.h"

#include "ir/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
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
  Importer(const Kernel& k, const MaskArgs& roles) : k_(k) {
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
      // Rearranging elements is harmless only if all elements are equal.
      const MaskNodeId of = visit(d.operands[0]);
      return expr_.depends(of, kOnQuery | kOnKey | kOnUnknown) ? unknown(v) : of;
    }
    if (const auto found = find_table(d)) return table(v, *found);
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

  struct Lookup {
    Value view, index;
  };
  Value strip(Value v) const {
    for (OpId def = k_[v].def; def; def = k_[v].def) {
      if (k_[def].opcode != Opcode::Splat && k_[def].opcode != Opcode::Broadcast) break;
      v = k_[def].operands[0];
    }
    return v;
  }
  /// Returns the operands of the op that defines `v`, without shape ops, if its opcode is `opcode`.
  std::vector<Value> parts(Value v, Opcode opcode) const {
    const OpId def = k_[strip(v)].def;
    if (!def || k_[def].opcode != opcode) return {};
    std::vector<Value> out;
    for (const Value o : k_[def].operands) out.push_back(strip(o));
    return out;
  }
  bool is_of_view(Value v, Opcode opcode, Value view) const {
    const auto of = parts(v, opcode);
    return !of.empty() && of[0] == view && k_[k_[strip(v)].def].attrs.i(AttrName::axis) == 0;
  }
  bool is_table(Value view) const {
    const Type t = k_.type(view);
    return t.is_view() && t.rank() == 1 && t.view_facts().access == Access::In &&
           is_integer(t.dtype()) && size_bits(t.dtype()) <= 32;
  }

  /// Matches x(i) of a one-dimensional read-only tensor, in the forms that the language's
  /// `view.cpp` records: a box of one element, or a gather with the address of entry i.
  std::optional<Lookup> find_table(const OpData& d) const {
    if (d.opcode == Opcode::LoadView && is_table(accessed_view(d)) &&
        k_.type(d.results[0]).is_scalar())
      return Lookup{accessed_view(d), access_of(k_, d).axes[0].offset};
    if (d.opcode != Opcode::Load) return std::nullopt;
    const auto address = parts(d.operands[0], Opcode::AddPtr);
    if (address.size() != 2) return std::nullopt;
    const auto base = parts(address[0], Opcode::ViewPtr);
    const auto offset = parts(address[1], Opcode::Mul);
    if (base.empty() || !is_table(base[0]) || offset.size() != 2 ||
        !is_of_view(offset[1], Opcode::ViewStride, base[0]))
      return std::nullopt;
    // Entries out of bounds are masked off, and the analysis assumes that they may have any value.
    // A mask that is stricter than the bounds would replace entries with the fill value.
    if (d.operands.size() > 1 && !is_bounds_check(d.operands[1], offset[0], base[0]))
      return std::nullopt;
    return Lookup{base[0], offset[0]};
  }
  bool is_bounds_check(Value mask, Value index, Value view) const {
    const auto both = parts(mask, Opcode::And);
    if (both.size() != 2) return false;
    const auto above = parts(both[0], Opcode::Cmp), below = parts(both[1], Opcode::Cmp);
    const auto pred = [&](Value v) { return k_[k_[v].def].attrs.s(AttrName::pred); };
    if (above.size() != 2 || below.size() != 2) return false;
    const OpId zero = k_[above[1]].def;
    return above[0] == index && below[0] == index && pred(both[0]) == "ge" &&
           pred(both[1]) == "lt" && zero && k_[zero].opcode == Opcode::Const &&
           k_[zero].attrs.i(AttrName::value, 1) == 0 && is_of_view(below[1], Opcode::ViewDim, view);
  }
  MaskNodeId table(Value v, const Lookup& found) {
    MaskNode n;
    n.kind = Kind::Table;
    n.dtype = k_.type(v).dtype();
    n.operands = 1;
    n.in[0] = visit(found.index);
    n.depends = static_cast<std::uint8_t>(expr_[n.in[0]].depends | kOnTable);
    const auto it = std::ranges::find(expr_.tables, found.view);
    n.value = it - expr_.tables.begin();
    if (it == expr_.tables.end()) expr_.tables.push_back(found.view);
    return expr_.add(n);
  }

  /// Creates a node for a value that is not decomposed.
  MaskNodeId leaf(Value v) {
    if (!k_.type(v).is_scalar() || !is_number(k_.type(v)) || !is_uniform(v)) return unknown(v);
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
    n.value = v.index;  // keeps add() from merging different unknown values
    return expr_.add(n);
  }

  /// Returns true if the value does not vary with b, h, q or kv, nor between iterations of a loop.
  bool is_uniform(Value v) {
    const auto [it, is_new] = uniform_.emplace(v, false);
    if (is_new) {
      const bool uniform = find_uniform(v);  // may insert into uniform_ and invalidate `it`
      uniform_[v] = uniform;
      return uniform;
    }
    return it->second;
  }
  bool find_uniform(Value v) {
    if (const auto it = ids_.find(v); it != ids_.end())
      return !expr_.depends(it->second,
                            kOnBatch | kOnHead | kOnQuery | kOnKey | kOnTable | kOnUnknown);
    const ValueData& data = k_[v];
    if (!data.def) return !data.region || !k_[data.region].owner;
    const OpData& d = k_[data.def];
    if (!d.regions.empty() || !info(d.opcode).has(kPure)) return false;
    return std::ranges::all_of(d.operands, [&](Value o) { return is_uniform(o); });
  }

  const Kernel& k_;
  MaskExpr expr_;
  std::unordered_map<Value, MaskNodeId> ids_;
  std::unordered_map<Value, bool> uniform_;
};

}  // namespace

MaskNodeId MaskExpr::add(MaskNode node) {
  const auto it = std::ranges::find(nodes, node);
  if (it != nodes.end()) return static_cast<MaskNodeId>(it - nodes.begin());
  nodes.push_back(node);
  return static_cast<MaskNodeId>(nodes.size() - 1);
}

std::string MaskExpr::str(MaskNodeId id, int depth) const {
  if (depth == 0) return "...";
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
      return fmt::format("table{}[{}]", n.value, str(n.in[0], depth - 1));
    case Kind::Unknown:
      return "?";
    case Kind::Op:
      break;
  }
  constexpr std::array kPredicates{"lt", "le", "eq", "ne"};
  std::string text(n.is_op(Opcode::Cmp) ? kPredicates[static_cast<std::size_t>(n.pred)]
                                        : info(n.opcode).mnemonic);
  text += '(';
  for (std::size_t i = 0; i < n.operands; ++i) text += (i ? ", " : "") + str(n.in[i], depth - 1);
  return text + ')';
}

MaskExpr import_mask(const Kernel& k, Value root, const MaskArgs& roles) {
  return Importer(k, roles).run(root);
}

}  // namespace tegula::ir
