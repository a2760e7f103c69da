// Hoists terms that are constant along rows or columns out of per-element arithmetic and computes
// them once per row or column. Before and after: tile form.
//
// An elementwise op on broadcasts is computed before they are broadcast, which is exact and happens
// in every kernel. Float ops marked `reassoc` are represented as forms factor * tile + terms
// (linear_form.h), which are written out where an op needs the tile. Some users need less: a
// maximum along rows is that of the tile plus the row term, and if row maxima are subtracted next,
// that happens per row, too. A select against an infinity and a branch pass on deferrable terms.
// The accumulator of an MMA may start as the remaining terms (accumulator_init.cpp).
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/analysis/float_facts.h"
#include "ir/erase_unused.h"
#include "ir/passes/terms/linear_form.h"
#include "ir/pipeline.h"
#include "ir/ramp.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

bool is_infinite(const Kernel& k, Value v) {
  if (const OpId def = k[v].def)
    if (k[def].is(Opcode::Splat, Opcode::Broadcast)) return is_infinite(k, k[def].operands[0]);
  const auto number = number_of(k, v);
  return number && std::isinf(*number);
}

/// Terms and factor of a form that can be applied after the users of a value.
struct Deferrable {
  bool factor = true;
  std::array<bool, 3> terms{true, true, true};  ///< as in LinearForm
};

class HoistBroadcastTerms {
 public:
  HoistBroadcastTerms(Kernel& k, PassContext& context)
      : k_(k),
        context_(context),
        forms_(k),
        facts_(k),
        first_new_(static_cast<std::uint32_t>(k.op_count())),
        uses_(k) {}

  bool run() {
    region(k_.body());
    remove_unused();
    return changed_;
  }

 private:
  using Use = Uses::Use;

  // ---- which ops --------------------------------------------------------------------------------
  bool is_float_wide(Value v) const {
    return LinearForms::has_broadcast_dims(k_.type(v)) && k_.type(v).dtype() == DType::f32;
  }
  bool is_integer_wide(Value v) const {
    const Type t = k_.type(v);
    return LinearForms::has_broadcast_dims(t) &&
           (t.dtype() == DType::i32 || t.dtype() == DType::i64);
  }

  static bool is_sum(Opcode o) { return o == Opcode::Add || o == Opcode::Sub || o == Opcode::Neg; }
  /// Returns true if the op is a sum or product that may be reassociated.
  bool is_linear(OpId op) const {
    const OpData& d = k_[op];
    if (d.results.size() != 1 || !is_float_wide(d.results[0])) return false;
    using enum Opcode;
    const bool fits = is_sum(d.opcode) || d.is(Mul, Div, Fma) ||
                      (d.opcode == Cast && is_integer_wide(d.operands[0]));
    return fits && d.attrs.i(AttrName::reassoc) != 0;
  }
  /// Returns true if the user is a linear op that can take the value as a form.
  bool takes_form(const Use& u) const {
    if (!is_linear(u.op)) return false;
    const OpData& d = k_[u.op];
    const auto is_narrow = [&](std::size_t i) {
      return forms_.narrow_axis(d.operands[i]).has_value();
    };
    if (d.opcode == Opcode::Div) return u.operand == 0 && is_narrow(1);
    if (d.opcode == Opcode::Mul || (d.opcode == Opcode::Fma && u.operand < 2))
      return is_narrow(1 - u.operand);
    return true;
  }
  static bool is_extremum(const OpData& d) {
    const std::string_view kind = d.attrs.s(AttrName::kind);
    return d.opcode == Opcode::Reduce && (kind == "max" || kind == "min");
  }
  /// Returns the index of the operand that a select chooses, if the other one is an infinity.
  std::optional<std::size_t> chosen(const OpData& d) const {
    if (d.opcode != Opcode::Select || !is_float_wide(d.results[0])) return std::nullopt;
    if (is_infinite(k_, d.operands[2])) return 1;
    if (is_infinite(k_, d.operands[1])) return 2;
    return std::nullopt;
  }
  /// Returns the branch that the region belongs to, or a null op for other regions.
  OpId branch_of(RegionId r) const {
    const OpId owner = k_[r].owner;
    return owner && k_[owner].opcode == Opcode::If ? owner : OpId();
  }

  // ---- values -----------------------------------------------------------------------------------
  LinearForm form(Value v) {
    if (const auto it = known_.find(v); it != known_.end()) return it->second;
    if (is_integer_wide(v))
      if (const auto f = integer_form(v)) return *f;
    return forms_.of(v);
  }

  /// Returns the form of an integer value. Integer sums are exact in any order. Their ops stay for
  /// other users.
  std::optional<LinearForm> integer_form(Value v) {
    const OpId def = k_[v].def;
    if (!def || (!is_sum(k_[def].opcode) && k_[def].opcode != Opcode::Mul)) return std::nullopt;
    return combined(def);
  }

  std::optional<LinearForm> combined(OpId op) {
    const std::vector<Value> operands(k_[op].operands.begin(), k_[op].operands.end());
    std::vector<LinearForm> x;
    for (Value v : operands) x.push_back(form(v));
    using enum Opcode;
    const Opcode o = k_[op].opcode;
    if (o == Add) return forms_.sum(x[0], x[1]);
    if (o == Sub) return forms_.sum(x[0], forms_.negated(x[1]));
    if (o == Neg) return forms_.negated(x[0]);
    if (o == Div) return forms_.quotient(x[0], x[1]);
    if (o == Cast) return forms_.cast(x[0], DType::f32);
    const auto product = forms_.product(x[0], x[1]);
    // The subtrahend of a tile often depends on the tile: the tile comes first, because layouts
    // follow first operands.
    return o == Mul || !product ? product : forms_.sum(x[2], *product);
  }

  /// Returns the value as a complete tile, computed right after its definition.
  Value whole(Value v) {
    const auto it = known_.find(v);
    if (it == known_.end()) return v;
    const auto [made, fresh] = whole_.try_emplace(v, v);
    if (fresh) {
      forms_.before(k_[k_[v].def].next);
      made->second = forms_.emit(it->second, k_.type(v));
    }
    return made->second;
  }
  void make_operands_whole(OpId op) {
    for (std::size_t i = 0; i < k_[op].operands.size(); ++i) {
      const Value v = whole(k_[op].operands[i]);
      k_[op].operands[i] = v;
    }
  }

  // ---- the walk ---------------------------------------------------------------------------------
  void region(RegionId r) {
    for (OpId op : k_.ops(r)) visit(op);
  }

  void visit(OpId op) {
    if (k_[op].opcode == Opcode::If) return branch(op);
    if (k_[op].opcode == Opcode::Yield && branch_of(k_[op].parent)) return;  // handled by branch()
    forms_.before(op);
    if (linear(op) || before_broadcasts(op) || extremum(op) || select(op)) {
      replaced_.push_back(op);
      changed_ = true;
      return;
    }
    make_operands_whole(op);
    const std::vector<RegionId> regions(k_[op].regions.begin(), k_[op].regions.end());
    for (RegionId r : regions) region(r);
  }

  bool linear(OpId op) {
    if (!is_linear(op)) return false;
    const auto f = combined(op);
    if (!f) return false;
    const Value v = k_[op].results[0];
    if (std::ranges::all_of(uses_.of(v), [&](const Use& u) { return takes_form(u); }))
      known_[v] = *f;
    else
      write_out(v, *f);
    return true;
  }

  /// Rewrites an elementwise op whose operands are all narrow.
  bool before_broadcasts(OpId op) {
    if (!info(k_[op].opcode).is_elementwise()) return false;
    if (k_[op].results.size() != 1 || !LinearForms::has_broadcast_dims(k_.type(k_[op].results[0])))
      return false;
    const std::vector<Value> operands(k_[op].operands.begin(), k_[op].operands.end());
    const auto can_be_narrow = [&](Value v) {
      const auto it = known_.find(v);
      if (it == known_.end()) return forms_.narrow_axis(v).has_value();
      return !it->second.tile && !(it->second.term(0) && it->second.term(1));
    };
    if (!std::ranges::all_of(operands, can_be_narrow)) return false;
    std::vector<RowOrColTerm> narrow;
    for (Value v : operands) narrow.push_back(*forms_.narrow(form(v)));
    const auto made = forms_.elementwise(op, narrow);
    if (!made) return false;
    known_[k_[op].results[0]].term(made->axis) = *made;
    return true;
  }

  bool extremum(OpId op) {
    const auto it = known_.find(k_[op].operands.empty() ? Value() : k_[op].operands[0]);
    if (!is_extremum(k_[op]) || it == known_.end()) return false;
    const LinearForm f = it->second;
    const int axis = static_cast<int>(k_[op].attrs.i(AttrName::axis));
    if (!f.tile || f.term(axis) || !is_deferrable(f.factor)) return false;
    Builder& b = forms_.builder();
    const OpId made = b.create(Opcode::Reduce, std::span(&f.tile, 1), AttrList(k_[op].attrs));
    const Value folded = forms_.emit_folded(k_[made].results[0], f);
    k_.replace_all_uses(k_[op].results[0], folded);
    return true;
  }

  bool select(OpId op) {
    const auto operand = chosen(k_[op]);
    const auto it = operand ? known_.find(k_[op].operands[*operand]) : known_.end();
    if (it == known_.end() || !it->second.tile || !is_deferrable(it->second.factor)) return false;
    LinearForm f = it->second;
    std::vector<Value> operands(k_[op].operands.begin(), k_[op].operands.end());
    operands[*operand] = f.tile;
    f.tile = forms_.builder().op(Opcode::Select, std::span<const Value>(operands));
    known_[k_[op].results[0]] = f;
    return true;
  }

  /// Adds terms that both regions defer to the result of the branch.
  void branch(OpId op) {
    const std::vector<RegionId> regions(k_[op].regions.begin(), k_[op].regions.end());
    for (RegionId r : regions) region(r);
    for (std::size_t i = 0; i < k_[op].results.size(); ++i) {
      std::vector<LinearForm> left;
      for (RegionId r : regions)
        if (const auto it = known_.find(k_[k_.terminator(r)].operands[i]); it != known_.end())
          left.push_back(it->second);
      const bool hand_on = left.size() == regions.size() && left[0].tile && left[1].tile &&
                           left[0].factor == left[1].factor && left[0].terms == left[1].terms &&
                           is_visible(left[0], op);
      for (std::size_t r = 0; r < regions.size(); ++r) {
        const OpId yield = k_.terminator(regions[r]);
        const Value v = hand_on ? left[r].tile : whole(k_[yield].operands[i]);
        k_[yield].operands[i] = v;
      }
      if (!hand_on) continue;
      LinearForm f = left[0];
      f.tile = k_[op].results[i];
      known_[f.tile] = f;
    }
  }
  bool is_visible(const LinearForm& f, OpId from) const {
    const auto visible = [&](const RowOrColTerm& n) {
      return !n || k_.is_visible_from(n.value, from);
    };
    return visible(f.factor) && std::ranges::all_of(f.terms, visible);
  }

  // ---- deferred terms ---------------------------------------------------------------------------
  bool is_deferrable(const RowOrColTerm& factor) const {
    return !factor || (factor.axis < 0 && facts_.is_positive(factor.value));
  }

  /// The terms of a form that are written at the value, and those deferred until after its users.
  struct DeferredTerms {
    LinearForm now, later;
  };
  DeferredTerms split(const LinearForm& f, const Deferrable& w) const {
    DeferredTerms p{f, {}};
    for (std::size_t i = 0; i < w.terms.size(); ++i)
      if (w.terms[i]) std::swap(p.now.terms[i], p.later.terms[i]);
    if (w.factor && !p.now.has_terms()) std::swap(p.now.factor, p.later.factor);
    return p;
  }

  /// Writes the value's form out, except for deferred terms.
  void write_out(Value v, const LinearForm& f) {
    DeferredTerms p{f, {}};
    if (f.tile) {
      const Deferrable w = waiting(v, f);
      p = split(f, w);
      if (const auto begun = with_accumulator_init(v, f, w)) p = *begun;
    }
    p.later.tile = p.now.is_tile() ? p.now.tile : forms_.emit(p.now, k_.type(v));
    report(v, p.now, p.later);
    if (p.later.is_tile())
      k_.replace_all_uses(v, p.later.tile);
    else
      known_[v] = p.later;
  }

  /// Initializes the accumulator of an MMA that nothing else uses with terms of the form, if that
  /// saves work per element.
  std::optional<DeferredTerms> with_accumulator_init(Value v, const LinearForm& f,
                                                     const Deferrable& w) {
    if (!is_deferrable(f.factor) || !is_only_for(f.tile, v)) return std::nullopt;
    const int cost = split(f, w).now.cost();
    for (const int axis : {1, 0}) {
      if (!f.term(axis) || w.terms[static_cast<std::size_t>(axis + 1)]) continue;
      const auto begun = forms_.with_accumulator_init(f, axis);
      if (!begun) continue;
      const DeferredTerms p = split(*begun, w);
      if (p.now.cost() >= cost) continue;
      replaced_.insert(replaced_.begin(), k_[f.tile].def);
      context_.remark(Remark::Kind::Applied, k_[k_[f.tile].def].loc,
                      "an accumulator starts from terms", {{"of", axis == 0 ? "rows" : "columns"}});
      return p;
    }
    return std::nullopt;
  }
  /// Returns true if the only path from `x` leads to `v`, through sums and products in the same
  /// region.
  bool is_only_for(Value x, Value v) const {
    const RegionId here = k_[k_[v].def].parent;
    while (x != v) {
      const auto use = uses_.only(x);
      if (!k_[x].def || k_[k_[x].def].parent != here) return false;
      if (!use || !is_linear(use->op)) return false;
      x = k_[use->op].results[0];
    }
    return true;
  }

  void report(Value v, const LinearForm& now, const LinearForm& later) {
    const auto parts = [](const LinearForm& f) {
      std::string text = f.factor ? "factor " : "";
      for (const auto& [axis, name] : {std::pair{-1, "scalar "}, {0, "rows "}, {1, "columns "}})
        if (f.term(axis)) text += name;
      if (text.empty()) return std::string("nothing");
      text.pop_back();
      return text;
    };
    if (!now.has_terms() && parts(later) == "nothing") return;
    context_.remark(Remark::Kind::Applied, k_[k_[v].def].loc,
                    "row or column terms are computed separately",
                    {{"here", parts(now)}, {"after users", parts(later)}});
  }

  Deferrable waiting(Value v, const LinearForm& f) const {
    Deferrable w;
    w.factor = is_deferrable(f.factor);
    std::unordered_set<Value> carriers{v};
    follow(v, w, carriers);
    // A branch passes on only what both of its regions defer.
    for (Value carrier : carriers) {
      const OpId def = k_[carrier].def;
      if (k_[def].opcode != Opcode::If) continue;
      for (RegionId r : k_[def].regions)
        if (!carriers.contains(k_[k_.terminator(r)].operands[k_[carrier].position]))
          return {false, {}};
    }
    return w;
  }

  void follow(Value v, Deferrable& w, std::unordered_set<Value>& carriers) const {
    for (const Use& u : uses_.of(v)) {
      const OpData& d = k_[u.op];
      if (takes_form(u)) continue;
      if (is_extremum(d)) {
        w.terms[static_cast<std::size_t>(d.attrs.i(AttrName::axis) + 1)] = false;
        continue;
      }
      const bool yields = d.opcode == Opcode::Yield && branch_of(d.parent);
      if (!yields && chosen(d) != u.operand) {
        w = {false, {}};
        return;
      }
      const Value next = yields ? k_[branch_of(d.parent)].results[u.operand] : d.results[0];
      if (carriers.insert(next).second) follow(next, w, carriers);
    }
  }

  // ---- cleanup ----------------------------------------------------------------------------------
  /// Removes replaced ops, and ops of forms that were not written out.
  void remove_unused() {
    std::vector<OpId> ops = replaced_;
    for (auto id = first_new_; id < k_.op_count(); ++id) ops.push_back(OpId(id));
    erase_unused(k_, std::move(ops));
  }

  Kernel& k_;
  PassContext& context_;
  LinearForms forms_;
  FloatFacts facts_;
  std::uint32_t first_new_;
  Uses uses_;  ///< before the pass
  /// Forms of values whose op computes only a part of them, or nothing.
  std::unordered_map<Value, LinearForm> known_;
  std::unordered_map<Value, Value> whole_;
  std::vector<OpId> replaced_;
  bool changed_ = false;
};

}  // namespace

bool hoist_broadcast_terms(Kernel& kernel, PassContext& context) {
  return HoistBroadcastTerms(kernel, context).run();
}

}  // namespace tegula::ir
