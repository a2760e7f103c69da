#include "ir/analysis/mask/class.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/analysis/mask/digits.h"

namespace tegula::ir {
namespace {

using Kind = MaskNode::Kind;

class Classifier {
 public:
  explicit Classifier(MaskClosedForm& form) : form_(form), expr_(form.expr) {
    for (MaskNodeId id = 0; id < expr_.nodes.size(); ++id) is_of_entry_.push_back(of_entry(id));
  }

  void run(std::span<const MaskUnsolved> unsolved) {
    set_class(of_solved());
    form_.tells_blocks = reads_table(form_.formula);
    for (const MaskUnsolved& terms : unsolved) {
      const Verdict v = of(terms);
      // A block list stores minima and maxima per block, which may decide even a condition of class
      // D if it does not depend on the query.
      form_.tells_blocks = form_.tells_blocks || v.mask_class != MaskClass::Data ||
                           !depend(terms, kOnQuery | kOnUnknown);
      set_class(v);
    }
  }

 private:
  struct Verdict {
    MaskClass mask_class;
    std::string reason;
  };

  const MaskNode& node(MaskNodeId id) const { return expr_[id]; }
  bool on_key(MaskNodeId id) const { return expr_.depends(id, kOnKey); }

  void set_class(Verdict v) {
    if (v.mask_class <= form_.mask_class && !form_.reason.empty()) return;
    form_.mask_class = v.mask_class;
    form_.reason = std::move(v.reason);
  }

  // ---- solved conditions
  /// Returns true if a solved part, or a part that does not depend on kv, reads a table.
  bool reads_table(const MaskFormula& f) const {
    if (f.kind == MaskFormula::Kind::Opaque)
      return !on_key(f.index) && expr_.depends(f.index, kOnTable);
    if (f.kind != MaskFormula::Kind::Condition)
      return std::ranges::any_of(f.parts, [&](const MaskFormula& p) { return reads_table(p); });
    const MaskCondition& c = form_.conditions[f.index];
    const auto has = [&](unsigned on) {
      return std::ranges::any_of(c.form,
                                 [&](Linear::Term t) { return expr_.depends(t.symbol, on); });
    };
    return has(kOnTable) && (!c.steps.empty() || !has(kOnKey));
  }
  Verdict of_solved() const {
    if (!expr_.depends(expr_.root, kOnTable))
      return {MaskClass::Interval, "every condition is solved for kv"};
    const bool by_key = std::ranges::any_of(form_.conditions, [&](const MaskCondition& c) {
      return std::ranges::any_of(
          c.steps, [&](const MaskStep& s) { return node(s.symbol).kind == Kind::Table; });
    });
    return {MaskClass::Table,
            by_key ? "every condition is solved for kv where the table that kv selects from "
                     "ascends; else blocks are classified by its minima and maxima"
                   : "every condition is solved for kv; ends come from captured tables"};
  }

  // ---- unsolved conditions
  /// Returns true if `holds` is true for a node that `from` is computed from.
  bool anywhere(MaskNodeId from, auto&& holds) const {
    std::vector<bool> used(from + 1);
    used[from] = true;
    for (MaskNodeId id = from + 1; id-- > 0;) {  // operands come before their users
      if (!used[id]) continue;
      if (holds(id)) return true;
      for (std::size_t i = 0; i < node(id).operands; ++i) used[node(id).in[i]] = true;
    }
    return false;
  }
  bool depend(const MaskUnsolved& terms, unsigned on) const {
    return std::ranges::any_of(terms, [&](MaskNodeId id) { return expr_.depends(id, on); });
  }
  bool anywhere_in(const MaskUnsolved& terms, auto&& holds) const {
    return std::ranges::any_of(terms, [&](MaskNodeId id) { return anywhere(id, holds); });
  }

  /// Returns true for functions of captured table entries at kv that depend on no other position.
  bool of_entry(MaskNodeId id) const {
    const MaskNode& n = node(id);
    if (expr_.depends(id, kOnQuery)) return false;
    if (!on_key(id) || n.kind == Kind::Table) return true;
    for (std::size_t i = 0; i < n.operands; ++i)
      if (!is_of_entry_[n.in[i]]) return false;
    return n.kind == Kind::Op;
  }
  /// Returns true if the node is periodic in kv. A remainder of a table entry is not: it is
  /// equivalent to an entry of another table.
  bool is_remainder(MaskNodeId id) const {
    const MaskNode& n = node(id);
    return on_key(id) && !is_of_entry_[id] &&
           (n.is_op(Opcode::Rem) ||
            (n.is_op(Opcode::And) && node(n.in[1]).kind == Kind::Const && !is_bool(n.dtype)));
  }
  bool is_quotient(MaskNodeId id) const { return on_key(id) && is_division(expr_, id); }

  /// Returns true if the node selects bits of a table entry by a position. If the entry depends on
  /// the query, the entries are rows of a bit matrix, as in tree masks and in lists of selected
  /// blocks (class D in docs/masks.md); if it depends only on keys, the result is equivalent to an
  /// entry of another table. (bits >> x) & 1 has the form of a remainder, but is not periodic in x.
  bool picks_bit(MaskNodeId id) const {
    const MaskNode& n = node(id);
    const bool is_bitwise = n.is_op(Opcode::Shl) || n.is_op(Opcode::Shr) || n.is_op(Opcode::And) ||
                            n.is_op(Opcode::Or) || n.is_op(Opcode::Xor);
    return is_bitwise && !is_bool(n.dtype) && on_key(id) &&
           expr_.depends(n.in[0], kOnQuery | kOnKey) && expr_.depends(n.in[1], kOnQuery | kOnKey) &&
           expr_.depends(id, kOnTable);
  }

  std::string str(const MaskUnsolved& terms) const {
    std::string text;
    for (const MaskNodeId id : terms) text += (text.empty() ? "" : " and ") + expr_.str(id);
    return text;
  }

  Verdict of(const MaskUnsolved& terms) const {
    if (depend(terms, kOnUnknown))
      return {MaskClass::Data, fmt::format("{} has an operand that is not known", str(terms))};
    const bool of_bits = anywhere_in(terms, [&](MaskNodeId id) { return picks_bit(id); });
    if (of_bits && depend(terms, kOnQuery))
      return {MaskClass::Data, fmt::format("{} picks bits of a captured table", str(terms))};
    const bool decodes = terms.size() > 1 &&
                         std::ranges::any_of(terms, [&](MaskNodeId id) { return is_quotient(id); });
    const bool repeats =
        decodes || anywhere_in(terms, [&](MaskNodeId id) { return is_remainder(id); });
    if (of_bits || (!repeats && !depend(terms, kOnQuery) && depend(terms, kOnTable)))
      return {MaskClass::Table,
              fmt::format("blocks are classified by the minima and maxima of {}", str(terms))};
    if (!repeats) return {MaskClass::Data, fmt::format("{} is not solved for kv", str(terms))};
    if (anywhere(expr_.root, [&](MaskNodeId id) { return is_quotient(id); }))
      return {MaskClass::Grid, decodes ? fmt::format("{} decode kv", str(terms))
                                       : fmt::format("{} and a quotient decode kv", str(terms))};
    return {MaskClass::Congruence, fmt::format("{} depends on a remainder of kv", str(terms))};
  }

  MaskClosedForm& form_;
  const MaskExpr& expr_;
  std::vector<bool> is_of_entry_;  ///< by node
};

}  // namespace

void classify_mask(MaskClosedForm& form, std::span<const MaskUnsolved> unsolved) {
  Classifier(form).run(unsolved);
}

std::string_view name(MaskClass c) {
  constexpr std::string_view kNames = "ITCGD";
  return kNames.substr(static_cast<std::size_t>(c), 1);
}

}  // namespace tegula::ir
