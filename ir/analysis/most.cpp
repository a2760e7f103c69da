// The most that an index value can be, by following its definition.
#include <algorithm>
#include <array>
#include <bit>

#include "ir/analysis/bounds.h"
#include "ir/loop.h"
#include "ir/op_table.h"

namespace tegula::ir {

namespace {

using Most = std::optional<std::int64_t>;

/// Definitions that are looked at: many more than say where a tile lies.
constexpr int kMaxSteps = 256;

/// Blocks are no longer than this: a dimension that is rounded up to blocks still fits its type.
/// (Where it does not, the grid is computed from the same sum, and has no programs.)
constexpr std::int64_t kLongestBlock = std::int64_t{1} << 16;

/// Of an integer type's numbers, but so that two can be added; 0 for types that no index has.
std::int64_t largest(Type t) {
  if (t.is_pointer() || !t.is_scalar() || !is_integer(t.dtype())) return 0;
  if (size_bits(t.dtype()) == 64) return std::int64_t{1} << 61;
  const int bits = size_bits(t.dtype()) - (is_signed(t.dtype()) ? 1 : 0);
  return (std::int64_t{1} << bits) - 1;
}

Most product(std::int64_t a, std::int64_t b, Type t) {
  if (b != 0 && a > largest(t) / b) return std::nullopt;
  return a * b;
}

/// The largest number that has no more bits.
std::int64_t bits_below(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n) + 1)) - 1;
}

}  // namespace

/// What a loop carries is at least 0 if it begins so and a turn leaves it so: while its turn is
/// looked at, that is taken as given.
class Bounds::MostOf {
 public:
  explicit MostOf(const Bounds& bounds) : bounds_(bounds), k_(bounds.k_) {}

  Most of(Value v) {
    const std::int64_t all = largest(k_.type(v));
    if (all == 0 || ++steps_ > kMaxSteps) return std::nullopt;
    if (bounds_.at_least_zero_.contains(v) || given_.contains(v)) return all;
    const Most found = k_[v].def ? result(v) : argument(v);
    return found && *found <= all ? found : std::nullopt;
  }

 private:
  /// Of a result of the op, by its number.
  using Rule = Most (MostOf::*)(OpId op, std::size_t result);

  static Rule rule_of(Opcode opcode) {
    using enum Opcode;
    static constexpr auto kRules = op_table<Rule>({
        {ViewDim, &MostOf::dimension}, {ProgramId, &MostOf::any},   {NumPrograms, &MostOf::any},
        {ClusterRank, &MostOf::any},   {ClusterId, &MostOf::any},   {ClusterTile, &MostOf::any},
        {FetchTile, &MostOf::any},     {Poison, &MostOf::any},  // whatever suits
        {Cast, &MostOf::same},         {Bitcast, &MostOf::same},    {TakeTile, &MostOf::taken},
        {While, &MostOf::carry},       {For, &MostOf::carry},       {If, &MostOf::either_branch},
        {Div, &MostOf::quotient},      {Rem, &MostOf::smaller},     {Add, &MostOf::sum},
        {Mul, &MostOf::multiple},      {Min, &MostOf::smaller},     {Max, &MostOf::larger},
        {Shr, &MostOf::shifted},       {And, &MostOf::common_bits}, {Or, &MostOf::all_bits},
        {Xor, &MostOf::all_bits},      {Select, &MostOf::either},
    });
    return kRules[static_cast<std::size_t>(opcode)];
  }

  Most result(Value v) {
    if (const auto c = as_constant(k_, v)) return *c >= 0 ? Most(*c) : std::nullopt;
    const OpId def = k_[v].def;
    const Rule rule = rule_of(k_[def].opcode);
    return rule ? (this->*rule)(def, k_[v].position) : std::nullopt;
  }

  Type type_of(OpId op, std::size_t result) const { return k_.type(k_[op].results[result]); }
  Most operand(OpId op, std::size_t i) { return of(k_[op].operands[i]); }
  struct Pair {
    Most a, b;
    bool are_known() const { return a && b; }
  };
  Pair operands(OpId op, std::size_t first = 0) {
    const Most a = operand(op, first);
    return {a, operand(op, first + 1)};
  }

  Most any(OpId op, std::size_t result) { return largest(type_of(op, result)); }
  /// What fits both types is kept.
  Most same(OpId op, std::size_t) { return operand(op, 0); }
  Most taken(OpId op, std::size_t result) { return operand(op, 2 + result); }
  Most dimension(OpId op, std::size_t result) {
    const auto axis = static_cast<std::size_t>(k_[op].attrs.i(AttrName::axis));
    const std::int64_t known = k_.type(k_[op].operands[0]).shape()[axis];
    return known != kDynamic ? known : largest(type_of(op, result)) - kLongestBlock;
  }

  Most quotient(OpId op, std::size_t) {
    const Pair p = operands(op);
    if (!p.are_known()) return std::nullopt;
    const auto c = as_constant(k_, k_[op].operands[1]);
    return c && *c > 0 ? *p.a / *c : *p.a;
  }

  /// Refused where it exceeds the type.
  Most sum(OpId op, std::size_t) {
    const Pair p = operands(op);
    return p.are_known() ? Most(*p.a + *p.b) : std::nullopt;
  }
  Most multiple(OpId op, std::size_t result) {
    const Pair p = operands(op);
    return p.are_known() ? product(*p.a, *p.b, type_of(op, result)) : std::nullopt;
  }
  /// Of a remainder, too.
  Most smaller(OpId op, std::size_t) {
    const Pair p = operands(op);
    return p.are_known() ? Most(std::min(*p.a, *p.b)) : std::nullopt;
  }
  /// At least 0 if one of them is.
  Most larger(OpId op, std::size_t result) {
    const Pair p = operands(op);
    if (p.are_known()) return std::max(*p.a, *p.b);
    return p.a || p.b ? Most(largest(type_of(op, result))) : std::nullopt;
  }
  Most shifted(OpId op, std::size_t) {
    const Pair p = operands(op);
    return p.are_known() ? p.a : std::nullopt;
  }
  Most common_bits(OpId op, std::size_t) {
    const Pair p = operands(op);
    if (p.are_known()) return std::min(*p.a, *p.b);
    return p.a ? p.a : p.b;
  }
  Most all_bits(OpId op, std::size_t) {
    const Pair p = operands(op);
    return p.are_known() ? Most(bits_below(std::max(*p.a, *p.b))) : std::nullopt;
  }
  Most either(OpId op, std::size_t) {
    const Pair p = operands(op, 1);
    return p.are_known() ? Most(std::max(*p.a, *p.b)) : std::nullopt;
  }
  Most either_branch(OpId op, std::size_t result) {
    Most both = 0;
    for (Value v : incoming_values(k_, {op, result})) {
      const Most one = of(v);
      both = both && one ? Most(std::max(*both, *one)) : std::nullopt;
    }
    return both;
  }

  Most argument(Value v) {
    if (const auto merge = merge_of(k_, v)) return carry(merge->op, merge->index);
    const RegionId region = k_[v].region;
    const OpId owner = region ? k_[region].owner : OpId();
    if (!owner || k_[owner].opcode != Opcode::For) return std::nullopt;
    const OpData& d = k_[owner];
    // From lo upwards, and less than hi.
    const auto step = as_constant(k_, d.operands[2]);
    if (!step || *step <= 0 || !of(d.operands[0])) return std::nullopt;
    const Most hi = of(d.operands[1]);
    return hi ? std::max<std::int64_t>(*hi - 1, 0) : largest(k_.type(v));
  }

  /// By induction over the turns.
  Most carry(OpId loop, std::size_t i) {
    const OpData& d = k_[loop];
    if (!of(loop_inits(d)[i])) return std::nullopt;
    std::vector<Value> added;
    for (RegionId r : d.regions)
      if (const Value v = loop_carries(k_, r)[i]; given_.insert(v).second) added.push_back(v);
    const Most turn = of(loop_nexts(k_, loop)[i]);
    for (Value v : added) given_.erase(v);
    return turn ? Most(largest(type_of(loop, i))) : std::nullopt;
  }

  const Bounds& bounds_;
  const Kernel& k_;
  std::unordered_set<Value> given_;
  int steps_ = 0;
};

Most Bounds::most(Value v) const { return MostOf(*this).of(v); }

}  // namespace tegula::ir
