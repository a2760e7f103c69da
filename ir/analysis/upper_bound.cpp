// Computes upper bounds of index values from their definitions.
#include <algorithm>
#include <bit>
#include <unordered_set>

#include "ir/analysis/facts.h"
#include "ir/analysis/index_facts.h"
#include "ir/loop.h"
#include "ir/op_table.h"

namespace tegula::ir {

namespace {

using Maximum = std::optional<std::int64_t>;

/// Maximum number of definitions that are visited, many more than a tile offset needs.
constexpr int kMaxSteps = 256;

/// Upper bound of block lengths. A dimension that is rounded up to blocks still fits its type. (If
/// it does not, the grid is computed from the same sum and has no programs.)
constexpr std::int64_t kLongestBlock = std::int64_t{1} << 16;

/// Returns the largest number of an integer type such that two can be added without overflow, or 0
/// for types that indices do not have.
std::int64_t largest(Type t) {
  if (t.is_pointer() || !t.is_scalar() || !is_integer(t.dtype())) return 0;
  if (size_bits(t.dtype()) == 64) return std::int64_t{1} << 61;
  const int bits = size_bits(t.dtype()) - (is_signed(t.dtype()) ? 1 : 0);
  return (std::int64_t{1} << bits) - 1;
}

Maximum product(std::int64_t a, std::int64_t b, Type t) {
  if (b != 0 && a > largest(t) / b) return std::nullopt;
  return a * b;
}

/// Returns the largest number with the same number of bits.
std::int64_t bits_below(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n) + 1)) - 1;
}

}  // namespace

/// Computes the upper bound of a value. A loop carry is at least 0 if its initial value is and an
/// iteration preserves it; this is assumed while the iteration is examined.
class Facts::UpperBound {
 public:
  explicit UpperBound(const Facts& facts) : facts_(facts), k_(facts.k_) {}

  Maximum of(Value v) {
    const std::int64_t all = largest(k_.type(v));
    if (all == 0 || ++steps_ > kMaxSteps) return std::nullopt;
    if (given_.contains(v) || facts_.is_stated_non_negative(v)) return all;
    const Maximum found = k_[v].def ? result(v) : argument(v);
    return found && *found <= all ? found : std::nullopt;
  }

 private:
  /// Computes the bound of result number `result` of the op.
  using Rule = Maximum (UpperBound::*)(OpId op, std::size_t result);

  static Rule rule_of(Opcode opcode) {
    using enum Opcode;
    static constexpr auto kRules = op_table<Rule>({
        {ViewDim, &UpperBound::dimension}, {ProgramId, &UpperBound::any},
        {NumPrograms, &UpperBound::any},   {ClusterRank, &UpperBound::any},
        {ClusterId, &UpperBound::any},     {ClusterTile, &UpperBound::any},
        {FetchTile, &UpperBound::any},     {Poison, &UpperBound::any},  // may take any value
        {Cast, &UpperBound::unchanged},    {Bitcast, &UpperBound::unchanged},
        {ReceiveTile, &UpperBound::taken}, {While, &UpperBound::carry},
        {For, &UpperBound::carry},         {If, &UpperBound::either_branch},
        {Div, &UpperBound::quotient},      {Rem, &UpperBound::smaller},
        {Add, &UpperBound::sum},           {Mul, &UpperBound::multiple},
        {Min, &UpperBound::smaller},       {Max, &UpperBound::larger},
        {Shr, &UpperBound::shifted},       {And, &UpperBound::common_bits},
        {Or, &UpperBound::all_bits},       {Xor, &UpperBound::all_bits},
        {Select, &UpperBound::either},
    });
    return kRules[static_cast<std::size_t>(opcode)];
  }

  Maximum result(Value v) {
    if (const auto c = constant_value(k_, v)) return *c >= 0 ? Maximum(*c) : std::nullopt;
    const OpId def = k_[v].def;
    const Rule rule = rule_of(k_[def].opcode);
    return rule ? (this->*rule)(def, k_[v].position) : std::nullopt;
  }

  Type type_of(OpId op, std::size_t result) const { return k_.type(k_[op].results[result]); }
  Maximum operand(OpId op, std::size_t i) { return of(k_[op].operands[i]); }
  struct Pair {
    Maximum a, b;
    bool are_known() const { return a && b; }
  };
  Pair operands(OpId op, std::size_t first = 0) {
    const Maximum a = operand(op, first);
    return {a, operand(op, first + 1)};
  }

  Maximum any(OpId op, std::size_t result) { return largest(type_of(op, result)); }
  /// A number that fits both types is unchanged.
  Maximum unchanged(OpId op, std::size_t) { return operand(op, 0); }
  Maximum taken(OpId op, std::size_t result) { return operand(op, 2 + result); }
  Maximum dimension(OpId op, std::size_t result) {
    const auto axis = static_cast<std::size_t>(k_[op].attrs.i(AttrName::axis));
    const std::int64_t known = k_.type(k_[op].operands[0]).shape()[axis];
    return known != kDynamic ? known : largest(type_of(op, result)) - kLongestBlock;
  }

  Maximum quotient(OpId op, std::size_t) {
    const Pair p = operands(op);
    if (!p.are_known()) return std::nullopt;
    const auto c = constant_value(k_, k_[op].operands[1]);
    return c && *c > 0 ? *p.a / *c : *p.a;
  }

  /// The caller rejects a sum that exceeds the type.
  Maximum sum(OpId op, std::size_t) {
    const Pair p = operands(op);
    return p.are_known() ? Maximum(*p.a + *p.b) : std::nullopt;
  }
  Maximum multiple(OpId op, std::size_t result) {
    const Pair p = operands(op);
    return p.are_known() ? product(*p.a, *p.b, type_of(op, result)) : std::nullopt;
  }
  /// Also used for remainders.
  Maximum smaller(OpId op, std::size_t) {
    const Pair p = operands(op);
    return p.are_known() ? Maximum(std::min(*p.a, *p.b)) : std::nullopt;
  }
  /// The result is at least 0 if one operand is.
  Maximum larger(OpId op, std::size_t result) {
    const Pair p = operands(op);
    if (p.are_known()) return std::max(*p.a, *p.b);
    return p.a || p.b ? Maximum(largest(type_of(op, result))) : std::nullopt;
  }
  Maximum shifted(OpId op, std::size_t) {
    const Pair p = operands(op);
    return p.are_known() ? p.a : std::nullopt;
  }
  Maximum common_bits(OpId op, std::size_t) {
    const Pair p = operands(op);
    if (p.are_known()) return std::min(*p.a, *p.b);
    return p.a ? p.a : p.b;
  }
  Maximum all_bits(OpId op, std::size_t) {
    const Pair p = operands(op);
    return p.are_known() ? Maximum(bits_below(std::max(*p.a, *p.b))) : std::nullopt;
  }
  Maximum either(OpId op, std::size_t) {
    const Pair p = operands(op, 1);
    return p.are_known() ? Maximum(std::max(*p.a, *p.b)) : std::nullopt;
  }
  Maximum either_branch(OpId op, std::size_t result) {
    Maximum both = 0;
    for (Value v : incoming_values(k_, {op, result})) {
      const Maximum one = of(v);
      both = both && one ? Maximum(std::max(*both, *one)) : std::nullopt;
    }
    return both;
  }

  Maximum argument(Value v) {
    if (const auto merge = merge_of(k_, v)) return carry(merge->op, merge->index);
    const RegionId region = k_[v].region;
    const OpId owner = region ? k_[region].owner : OpId();
    if (!owner || k_[owner].opcode != Opcode::For) return std::nullopt;
    const OpData& d = k_[owner];
    // The index starts at lo and stays below hi.
    const auto step = constant_value(k_, d.operands[2]);
    if (!step || *step <= 0 || !of(d.operands[0])) return std::nullopt;
    const Maximum hi = of(d.operands[1]);
    return hi ? std::max<std::int64_t>(*hi - 1, 0) : largest(k_.type(v));
  }

  /// Computes the bound by induction over the iterations.
  Maximum carry(OpId loop, std::size_t i) {
    const OpData& d = k_[loop];
    if (!of(loop_inits(d)[i])) return std::nullopt;
    std::vector<Value> added;
    for (RegionId r : d.regions)
      if (const Value v = loop_carries(k_, r)[i]; given_.insert(v).second) added.push_back(v);
    const Maximum turn = of(loop_nexts(k_, loop)[i]);
    for (Value v : added) given_.erase(v);
    return turn ? Maximum(largest(type_of(loop, i))) : std::nullopt;
  }

  const Facts& facts_;
  const Kernel& k_;
  std::unordered_set<Value> given_;
  int steps_ = 0;
};

Maximum Facts::upper_bound(Value v) const { return UpperBound(*this).of(v); }

}  // namespace tegula::ir
