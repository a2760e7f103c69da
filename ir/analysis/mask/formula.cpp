// Converts the graph of a mask to conditions on kv.
#include "ir/analysis/mask/formula.h"

#include <optional>
#include <utility>

#include "ir/analysis/mask/class.h"
#include "ir/analysis/mask/digits.h"
#include "ir/op_table.h"

namespace tegula::ir {
namespace {

using Kind = MaskNode::Kind;

/// Maximum number of parts of one formula, because choices multiply them; the rest stays opaque.
constexpr int kMaxFormulaParts = 400;
constexpr int kMaxSums = 4000;
constexpr std::size_t kMaxRequired = 64;

/// A condition `q / n == kv / n` or `ids[q] == ids[kv]` that is known to hold. Both sides are one
/// number, so remainders by n compare like the dividends, and lookups by the ids yield the same
/// entry.
struct SameQuotient {
  MaskNodeId key, query;  ///< the two sides
};

class Solver {
 public:
  explicit Solver(const MaskExpr& expr) { out_.expr = expr; }

  MaskClosedForm run() {
    out_.formula = build(out_.expr.root, false);
    classify_mask(out_, unsolved_);
    return std::move(out_);
  }

 private:
  const MaskNode& node(MaskNodeId id) const { return out_.expr[id]; }
  bool on_key(MaskNodeId id) const { return out_.expr.depends(id, kOnKey); }

  // ---- logic ----
  static MaskFormula group(MaskFormula::Kind kind, std::vector<MaskFormula> parts) {
    MaskFormula f;
    f.kind = kind;
    f.parts = std::move(parts);
    return f;
  }
  static MaskFormula constant(bool value) {
    return group(value ? MaskFormula::Kind::All : MaskFormula::Kind::Any, {});
  }
  MaskFormula opaque(MaskNodeId id, bool negated) {
    MaskFormula f;
    f.kind = MaskFormula::Kind::Opaque;
    f.index = id;
    f.negated = negated;
    if (on_key(id)) unsolved_.push_back({id});
    return f;
  }

  MaskFormula build(MaskNodeId id, bool negated) {
    const MaskNode n = node(id);  // a copy, because building adds nodes
    if (n.kind == Kind::Const) return constant((n.value != 0) != negated);
    if (n.kind != Kind::Op || !on_key(id) || ++parts_ > kMaxFormulaParts)
      return opaque(id, negated);
    const LogicFn logic = logic_of(n.opcode);
    return logic ? (this->*logic)(id, n, negated) : opaque(id, negated);
  }

  /// Builds the formula of the i1 node `id`, which is `n`, or of its negation.
  using LogicFn = MaskFormula (Solver::*)(MaskNodeId id, const MaskNode& n, bool negated);
  static LogicFn logic_of(Opcode op) {
    static constexpr auto kTable = op_table<LogicFn>({
        {Opcode::Not, &Solver::negation},
        {Opcode::And, &Solver::both},
        {Opcode::Or, &Solver::either},
        {Opcode::Xor, &Solver::difference},
        {Opcode::Select, &Solver::selection},
        {Opcode::Cmp, &Solver::comparison},
    });
    return kTable[static_cast<std::size_t>(op)];
  }

  MaskFormula negation(MaskNodeId, const MaskNode& n, bool negated) {
    return build(n.in[0], !negated);
  }
  MaskFormula both(MaskNodeId id, const MaskNode& n, bool negated) {
    return negated ? disjunction(n, negated) : conjunction(id, negated);
  }
  MaskFormula either(MaskNodeId id, const MaskNode& n, bool negated) {
    return negated ? conjunction(id, negated) : disjunction(n, negated);
  }
  MaskFormula difference(MaskNodeId, const MaskNode& n, bool negated) {
    return exclusive(n.in[0], n.in[1], negated);
  }
  MaskFormula selection(MaskNodeId, const MaskNode& n, bool negated) {
    return choice(n.in[0], n.in[1], n.in[2], negated);
  }
  MaskFormula comparison(MaskNodeId id, const MaskNode& n, bool negated) {
    if (!is_bool(node(n.in[0]).dtype)) return comparison_of_numbers(id, n, negated);
    if (n.pred == MaskPred::Lt || n.pred == MaskPred::Le) return opaque(id, negated);
    return exclusive(n.in[0], n.in[1], (n.pred == MaskPred::Eq) != negated);
  }

  MaskFormula disjunction(const MaskNode& n, bool negated) {
    return group(MaskFormula::Kind::Any, {build(n.in[0], negated), build(n.in[1], negated)});
  }
  /// Builds "a differs from b", or "a differs from !b" if `is_equality`.
  MaskFormula exclusive(MaskNodeId a, MaskNodeId b, bool is_equality) {
    return group(MaskFormula::Kind::Any,
                 {group(MaskFormula::Kind::All, {build(a, false), build(b, !is_equality)}),
                  group(MaskFormula::Kind::All, {build(a, true), build(b, is_equality)})});
  }
  MaskFormula choice(MaskNodeId c, MaskNodeId a, MaskNodeId b, bool negated) {
    return group(MaskFormula::Kind::Any,
                 {group(MaskFormula::Kind::All, {build(c, false), build(a, negated)}),
                  group(MaskFormula::Kind::All, {build(c, true), build(b, negated)})});
  }

  /// Collects the conditions that the conjunction at `id` requires, each with its negation flag.
  void flatten(MaskNodeId id, bool negated, std::vector<std::pair<MaskNodeId, bool>>& out) const {
    const MaskNode& n = node(id);
    if (n.is_op(Opcode::Not)) return flatten(n.in[0], !negated, out);
    const bool is_logic = out.size() < kMaxRequired && is_bool(n.dtype) &&
                          n.is_op(negated ? Opcode::Or : Opcode::And);
    if (!is_logic) return out.emplace_back(id, negated), void();
    flatten(n.in[0], negated, out);
    flatten(n.in[1], negated, out);
  }

  MaskFormula conjunction(MaskNodeId id, bool negated) {
    std::vector<std::pair<MaskNodeId, bool>> required;
    flatten(id, negated, required);
    const std::size_t known = same_.size();
    std::vector<bool> is_equality(required.size());
    std::vector<SameQuotient> found;
    for (std::size_t i = 0; i < required.size(); ++i)
      if (const auto quotient = same_quotient(required[i].first, required[i].second)) {
        is_equality[i] = true;
        found.push_back(*quotient);
      }
    std::vector<MaskFormula> parts;
    for (std::size_t i = 0; i < required.size(); ++i)  // equalities must not rewrite themselves
      if (is_equality[i]) parts.push_back(build(required[i].first, required[i].second));
    same_.insert(same_.end(), found.begin(), found.end());
    for (std::size_t i = 0; i < required.size(); ++i)
      if (!is_equality[i]) parts.push_back(build(required[i].first, required[i].second));
    same_.resize(known);
    return group(MaskFormula::Kind::All, std::move(parts));
  }

  std::optional<SameQuotient> same_quotient(MaskNodeId id, bool negated) const {
    const MaskNode& n = node(id);
    if (!n.is_op(Opcode::Cmp) || n.pred != (negated ? MaskPred::Ne : MaskPred::Eq))
      return std::nullopt;
    const bool first_is_key = on_key(n.in[0]);
    const MaskNodeId key = n.in[first_is_key ? 0 : 1], query = n.in[first_is_key ? 1 : 0];
    if (!on_key(key) || on_key(query)) return std::nullopt;
    if (node(key).kind == Kind::Table && node(query).kind == Kind::Table)
      return SameQuotient{key, query};
    if (!is_division(out_.expr, key) || !is_division(out_.expr, query) ||
        node(key).opcode != node(query).opcode || node(key).in[1] != node(query).in[1])
      return std::nullopt;
    return SameQuotient{key, query};
  }

  // ---- comparisons ----
  struct LinearSum {
    Linear form;
    std::vector<MaskNodeId> exact;
  };

  MaskFormula comparison_of_numbers(MaskNodeId id, const MaskNode& n, bool negated) {
    const auto a = linear(n.in[0]), b = linear(n.in[1]);
    const auto d = a && b ? add(a->form, b->form, -1) : std::nullopt;
    if (!d) return opaque(id, negated);
    LinearSum sum{*d, a->exact};
    sum.exact.insert(sum.exact.end(), b->exact.begin(), b->exact.end());
    if (n.pred == MaskPred::Lt) return side(id, sum, !negated, negated ? 0 : -1);
    if (n.pred == MaskPred::Le) return side(id, sum, !negated, negated ? 1 : 0);
    if ((n.pred == MaskPred::Eq) != negated)
      return group(MaskFormula::Kind::All, {side(id, sum, true, 0), side(id, sum, false, 0)});
    return group(MaskFormula::Kind::Any, {side(id, sum, true, -1), side(id, sum, false, 1)});
  }

  /// Builds sum <= bound if `below`, else sum >= bound. Minima, maxima, magnitudes and choices that
  /// depend on kv become logic.
  MaskFormula side(MaskNodeId id, const LinearSum& sum, bool below, std::int64_t bound) {
    if (++parts_ > kMaxFormulaParts) return opaque_side(id, sum, below, bound);
    for (const Linear::Term t : sum.form) {
      const MaskNode n = node(t.symbol);
      if (n.kind != Kind::Op || !on_key(t.symbol)) continue;
      const auto with = [&](MaskNodeId replacement, std::int64_t sign) {
        return replaced(id, sum, t, replacement, sign, below, bound);
      };
      if (n.opcode == Opcode::Min || n.opcode == Opcode::Max || n.opcode == Opcode::Abs) {
        const bool is_max = n.opcode != Opcode::Min;
        const bool all = is_max == ((t.factor > 0) == below);
        const bool is_abs = n.opcode == Opcode::Abs;
        return group(all ? MaskFormula::Kind::All : MaskFormula::Kind::Any,
                     {with(n.in[0], 1), is_abs ? with(n.in[0], -1) : with(n.in[1], 1)});
      }
      if (n.opcode == Opcode::Select)
        return group(MaskFormula::Kind::Any,
                     {group(MaskFormula::Kind::All, {build(n.in[0], false), with(n.in[1], 1)}),
                      group(MaskFormula::Kind::All, {build(n.in[0], true), with(n.in[2], 1)})});
    }
    return condition(sum, below, bound);
  }
  MaskFormula replaced(MaskNodeId id, const LinearSum& sum, Linear::Term t, MaskNodeId by,
                       std::int64_t sign, bool below, std::int64_t bound) {
    const auto other = linear(by);
    const auto without = add(sum.form, Linear::symbol(t.symbol), -t.factor);
    const auto form = other && without ? add(*without, other->form, t.factor * sign) : std::nullopt;
    if (!form) return opaque_side(id, sum, below, bound);
    LinearSum next{*form, sum.exact};
    next.exact.push_back(t.symbol);
    next.exact.insert(next.exact.end(), other->exact.begin(), other->exact.end());
    return side(id, next, below, bound);
  }
  /// Builds a condition that is not solved for kv: only the bounds of the sum can decide it.
  MaskFormula opaque_side(MaskNodeId id, const LinearSum& sum, bool below, std::int64_t bound) {
    unsolved_.push_back({id});
    return add_condition(sum, {}, below, bound);
  }
  MaskFormula add_condition(const LinearSum& sum, std::vector<MaskStep> steps, bool below,
                            std::int64_t bound) {
    MaskFormula f;
    f.kind = MaskFormula::Kind::Condition;
    f.index = static_cast<std::uint32_t>(out_.conditions.size());
    const Interval target =
        below ? Interval{kMinusInfinity, bound} : Interval{bound, kPlusInfinity};
    out_.conditions.push_back({sum.form, target, std::move(steps), sum.exact});
    return f;
  }

  MaskFormula condition(const LinearSum& sum, bool below, std::int64_t bound) {
    LinearSum whole = sum;
    std::vector<MaskStep> steps;
    std::optional<Linear> form = sum.form;
    for (;;) {
      std::vector<Linear::Term> of_key;
      for (const Linear::Term t : *form)
        if (on_key(t.symbol)) of_key.push_back(t);
      if (of_key.empty()) {
        steps.clear();
        break;
      }
      const auto [symbol, factor] = of_key[0];
      const auto rest = add(*form, Linear::symbol(symbol), -factor);
      if (of_key.size() > 1 || !rest) return unsolvable(whole, of_key, below, bound);
      steps.push_back({symbol, factor, *rest});
      if (node(symbol).kind == Kind::Key) break;
      const bool is_step = is_division(out_.expr, symbol) || node(symbol).kind == Kind::Table;
      const auto dividend = is_step ? linear(node(symbol).in[0]) : std::nullopt;
      if (!dividend) return unsolvable(whole, of_key, below, bound);
      whole.exact.push_back(symbol);
      whole.exact.insert(whole.exact.end(), dividend->exact.begin(), dividend->exact.end());
      form = dividend->form;
    }
    return add_condition(whole, std::move(steps), below, bound);
  }
  MaskFormula unsolvable(const LinearSum& sum, const std::vector<Linear::Term>& terms, bool below,
                         std::int64_t bound) {
    MaskUnsolved& unsolved = unsolved_.emplace_back();
    for (const Linear::Term t : terms) unsolved.push_back(t.symbol);
    return add_condition(sum, {}, below, bound);
  }

  // ---- linear forms ----
  /// Returns the value as a sum of symbols, valid if the nodes in `exact` do not wrap.
  std::optional<LinearSum> linear(MaskNodeId id) {
    const MaskNode n = node(id);
    // A shared node is expanded once per user. The limit is needed because the number of expansions
    // may double at each node.
    if (++sums_ > kMaxSums) return symbol(id);
    if (n.kind == Kind::Const) return LinearSum{Linear::number(n.value), {}};
    if (n.kind == Kind::Table)
      for (const SameQuotient& quotient : same_)
        if (n.in[0] == quotient.key) return LinearSum{Linear::symbol(entry(n, quotient.query)), {}};
    if (n.kind != Kind::Op && n.kind != Kind::Table) return symbol(id);
    for (const SameQuotient& quotient : same_) {
      if (id == quotient.key) return LinearSum{Linear::symbol(quotient.query), {}};
      if (const auto opened = open_remainder(n, quotient)) return opened;
    }
    const LinearFn taken_apart = linear_of(n.opcode);
    return taken_apart ? (this->*taken_apart)(id, n) : symbol(id);
  }
  static LinearSum symbol(MaskNodeId id) { return {Linear::symbol(id), {}}; }

  using LinearFn = std::optional<LinearSum> (Solver::*)(MaskNodeId id, const MaskNode& n);
  static LinearFn linear_of(Opcode op) {
    static constexpr auto kTable = op_table<LinearFn>({
        {Opcode::Add, &Solver::sum},
        {Opcode::Sub, &Solver::difference_of_sums},
        {Opcode::Neg, &Solver::negated_sum},
        {Opcode::Cast, &Solver::converted},
        {Opcode::Mul, &Solver::multiple},
        {Opcode::Shl, &Solver::shifted},
    });
    return kTable[static_cast<std::size_t>(op)];
  }

  std::optional<LinearSum> sum(MaskNodeId id, const MaskNode& n) {
    return combine(id, linear(n.in[0]), linear(n.in[1]), 1);
  }
  std::optional<LinearSum> difference_of_sums(MaskNodeId id, const MaskNode& n) {
    return combine(id, linear(n.in[0]), linear(n.in[1]), -1);
  }
  std::optional<LinearSum> negated_sum(MaskNodeId id, const MaskNode& n) {
    return combine(id, LinearSum{}, linear(n.in[0]), -1);
  }
  std::optional<LinearSum> converted(MaskNodeId id, const MaskNode& n) {
    return is_bool(node(n.in[0]).dtype) ? symbol(id) : combine(id, LinearSum{}, linear(n.in[0]), 1);
  }
  std::optional<LinearSum> multiple(MaskNodeId id, const MaskNode& n) {
    for (std::size_t i = 0; i < 2; ++i)
      if (node(n.in[i]).kind == Kind::Const)
        return combine(id, LinearSum{}, linear(n.in[1 - i]), node(n.in[i]).value);
    return symbol(id);
  }
  std::optional<LinearSum> shifted(MaskNodeId id, const MaskNode& n) {
    const MaskNode by = node(n.in[1]);
    if (by.kind != Kind::Const || by.value < 0 || by.value >= 31) return symbol(id);
    return combine(id, LinearSum{}, linear(n.in[0]), std::int64_t{1} << by.value);
  }
  std::optional<LinearSum> combine(MaskNodeId id, std::optional<LinearSum> a,
                                   const std::optional<LinearSum>& b, std::int64_t factor) {
    const auto form = a && b ? add(a->form, b->form, factor) : std::nullopt;
    if (!form) return symbol(id);
    LinearSum sum{*form, std::move(a->exact)};
    sum.exact.insert(sum.exact.end(), b->exact.begin(), b->exact.end());
    sum.exact.push_back(id);
    while (join_digits(sum)) {
    }
    return sum;
  }
  /// Recombines coordinates into the position: kv / n * n + kv % n is kv.
  bool join_digits(LinearSum& sum) {
    const auto digits = find_digits(out_.expr, sum.form);
    const auto x = digits ? linear(digits->number) : std::nullopt;
    if (!x) return false;
    auto form = add(sum.form, Linear::symbol(digits->high.symbol), -digits->high.factor);
    if (form) form = add(*form, Linear::symbol(digits->low.symbol), -digits->low.factor);
    // The factor of the combined term is that of the remainder.
    if (form) form = add(*form, x->form, digits->low.factor);
    if (!form) return false;
    sum.form = *form;
    for (const auto& more : {digits->exact, x->exact})
      sum.exact.insert(sum.exact.end(), more.begin(), more.end());
    return true;
  }

  /// Returns x % n as x - n * q if x / n is one of the two quotients known to be equal; q is the
  /// quotient of the query side.
  std::optional<LinearSum> open_remainder(const MaskNode& n, const SameQuotient& quotient) {
    const MaskNode key = node(quotient.key), query = node(quotient.query);
    if (key.kind != Kind::Op) return std::nullopt;
    if (n.in[0] != key.in[0] && n.in[0] != query.in[0]) return std::nullopt;
    if (!is_remainder_by(out_.expr, n, key)) return std::nullopt;
    auto x = linear(n.in[0]);
    std::optional<Linear> form;
    if (const MaskNode by = node(key.in[1]); by.kind == Kind::Const) {
      const bool is_shift = key.opcode == Opcode::Shr;
      if (is_shift && (by.value < 0 || by.value > 30)) return std::nullopt;
      const std::int64_t size = is_shift ? std::int64_t{1} << by.value : by.value;
      form = x ? add(x->form, Linear::symbol(quotient.query), -size) : std::nullopt;
    } else if (x) {
      const MaskNodeId multiple = product(key.in[1], quotient.query);
      form = add(x->form, Linear::symbol(multiple), -1);
      x->exact.push_back(multiple);
    }
    return form ? std::optional(LinearSum{*form, x->exact}) : std::nullopt;
  }
  /// Returns the same table at another index.
  MaskNodeId entry(MaskNode table, MaskNodeId index) {
    table.in[0] = index;
    table.depends = static_cast<std::uint8_t>(node(index).depends | kOnTable);
    return out_.expr.add(table);
  }
  MaskNodeId product(MaskNodeId a, MaskNodeId b) {
    MaskNode n;
    n.kind = Kind::Op;
    n.opcode = Opcode::Mul;
    n.dtype = node(a).dtype;
    n.operands = 2;
    n.in = {a, b};
    n.depends = node(a).depends | node(b).depends;
    return out_.expr.add(n);
  }

  MaskClosedForm out_;
  std::vector<SameQuotient> same_;
  std::vector<MaskUnsolved> unsolved_;
  int parts_ = 0, sums_ = 0;
};

}  // namespace

MaskClosedForm solve_mask(const MaskExpr& expr) { return Solver(expr).run(); }

}  // namespace tegula::ir
