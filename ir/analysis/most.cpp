// The most that an index value can be, by following its definition.
#include <algorithm>
#include <array>
#include <bit>

#include "ir/analysis/bounds.h"

namespace tegula::ir {

/// What a loop carries is at least 0 if it begins so and a turn leaves it so: while its turn is
/// looked at, that is taken as given.
struct Bounds::Induction {
  std::unordered_set<Value> given;
  int steps = 0;
};

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

Most Bounds::most(Value v) const {
  Induction at;
  return most(v, at);
}

Most Bounds::most(Value v, Induction& at) const {
  const std::int64_t all = largest(k_.type(v));
  if (all == 0 || ++at.steps > kMaxSteps) return std::nullopt;
  if (at_least_zero_.contains(v) || at.given.contains(v)) return all;
  const Most found = k_[v].def ? most_of_result(v, at) : most_of_argument(v, at);
  return found && *found <= all ? found : std::nullopt;
}

Most Bounds::most_of_result(Value v, Induction& at) const {
  if (const auto c = as_constant(k_, v)) return *c >= 0 ? Most(*c) : std::nullopt;
  const OpId def = k_[v].def;
  const OpData& d = k_[def];
  const std::size_t result = k_[v].position;
  const std::int64_t all = largest(k_.type(v));
  using enum Opcode;
  switch (d.opcode) {
    case ViewDim: {
      const auto axis = static_cast<std::size_t>(d.attrs.i(AttrName::axis));
      const std::int64_t known = k_.type(d.operands[0]).shape()[axis];
      return known != kDynamic ? known : all - kLongestBlock;
    }
    case ProgramId:
    case NumPrograms:
    case ClusterRank:
    case ClusterId:
    case ClusterTile:
    case FetchTile:
    case Poison:
      return all;  // poison: whatever suits
    case Cast:
    case Bitcast:
      return most(d.operands[0], at);  // what fits both types is kept
    case TakeTile:
      return most(d.operands[2 + result], at);
    case While:
    case For:
      return most_of_carry(def, result, at);
    case Div:
    case Rem:
      return most_of_quotient(d, at);
    case If: {
      Most both = 0;
      for (RegionId r : d.regions) {
        const Most one = most(k_[k_.terminator(r)].operands[result], at);
        both = both && one ? Most(std::max(*both, *one)) : std::nullopt;
      }
      return both;
    }
    default:
      return most_of_pair(d, at);
  }
}

Most Bounds::most_of_quotient(const OpData& d, Induction& at) const {
  const Most a = most(d.operands[0], at), b = most(d.operands[1], at);
  if (!a || !b) return std::nullopt;
  if (d.opcode == Opcode::Rem) return std::min(*a, *b);
  const auto c = as_constant(k_, d.operands[1]);
  return c && *c > 0 ? *a / *c : *a;
}

/// Ops on two numbers, or a choice of them.
Most Bounds::most_of_pair(const OpData& d, Induction& at) const {
  using enum Opcode;
  static constexpr std::array kOps{Add, Mul, Min, Max, Shr, And, Or, Xor, Select};
  if (std::ranges::find(kOps, d.opcode) == kOps.end()) return std::nullopt;
  const bool chooses = d.opcode == Select;
  const Most a = most(d.operands[chooses ? 1 : 0], at), b = most(d.operands[chooses ? 2 : 1], at);
  const Type t = k_.type(d.results[0]);
  if (d.opcode == Max && (a || b)) return a && b ? std::max(*a, *b) : largest(t);
  if (d.opcode == And && (a || b)) return std::min(a ? *a : *b, b ? *b : *a);
  if (!a || !b) return std::nullopt;
  switch (d.opcode) {
    case Or:
    case Xor:
      return bits_below(std::max(*a, *b));
    case Add:
      return *a + *b;  // refused where it exceeds the type
    case Mul:
      return product(*a, *b, t);
    case Min:
      return std::min(*a, *b);
    case Shr:
      return *a;
    default:
      return std::max(*a, *b);
  }
}

Most Bounds::most_of_argument(Value v, Induction& at) const {
  const RegionId region = k_[v].region;
  const OpId owner = region ? k_[region].owner : OpId();
  if (!owner) return std::nullopt;
  const OpData& d = k_[owner];
  const std::size_t i = k_[v].position;
  if (d.opcode == Opcode::While) return most_of_carry(owner, i, at);
  if (d.opcode != Opcode::For) return std::nullopt;
  if (i > 0) return most_of_carry(owner, i - 1, at);
  // From lo upwards, and less than hi.
  const auto step = as_constant(k_, d.operands[2]);
  if (!step || *step <= 0 || !most(d.operands[0], at)) return std::nullopt;
  const Most hi = most(d.operands[1], at);
  return hi ? std::max<std::int64_t>(*hi - 1, 0) : largest(k_.type(v));
}

/// By induction over the turns.
Most Bounds::most_of_carry(OpId loop, std::size_t i, Induction& at) const {
  const OpData& d = k_[loop];
  const bool counts = d.opcode == Opcode::For;
  std::vector<Value> args;
  for (RegionId r : d.regions) args.push_back(k_[r].args[counts ? i + 1 : i]);
  const Type t = k_.type(args[0]);
  if (!most(d.operands[counts ? i + 3 : i], at)) return std::nullopt;
  std::vector<Value> added;
  for (Value v : args)
    if (at.given.insert(v).second) added.push_back(v);
  const Most turn = most(k_[k_.terminator(d.regions.back())].operands[i], at);
  for (Value v : added) at.given.erase(v);
  return turn ? Most(largest(t)) : std::nullopt;
}

}  // namespace tegula::ir
