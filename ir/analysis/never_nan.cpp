#include "ir/analysis/never_nan.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ir/ramp.h"

namespace tegula::ir {
namespace {

bool moves_only(Opcode o) {
  using enum Opcode;
  return o == Splat || o == Broadcast || o == ExpandDims || o == ConvertLayout || o == Reshape ||
         o == Permute;
}

bool ignores_nan(const OpData& d) {
  return (d.opcode == Opcode::Max || d.opcode == Opcode::Min) &&
         d.attrs.s(AttrName::nan) != "propagate";
}

/// A carry is assumed to be free of NaN while what it becomes is looked at: induction over the
/// steps.
class NeverNan {
 public:
  explicit NeverNan(const Kernel& k) : k_(k) {}

  bool operator()(Value v) {
    if (!is_float(k_.type(v).dtype())) return true;
    if (!seen_.insert(v).second) return true;
    if (const auto number = number_of(k_, v)) return !std::isnan(*number);
    const OpId def = k_[v].def;
    if (!def) return is_free_carry(v);
    const OpData& d = k_[def];
    const auto holds = [&](Value x) { return (*this)(x); };
    using enum Opcode;
    if (moves_only(d.opcode)) return holds(d.operands[0]);
    if (ignores_nan(d)) return std::ranges::any_of(d.operands, [&](Value x) { return alone(x); });
    if (d.opcode == Reduce)
      return d.attrs.s(AttrName::kind) == "max" || d.attrs.s(AttrName::kind) == "min";
    if (d.opcode == Select) return holds(d.operands[1]) && holds(d.operands[2]);
    if (d.opcode == For) return is_free_carry(k_[d.regions[0]].args[1 + k_[v].position]);
    if (d.opcode == If)
      return std::ranges::all_of(d.regions, [&](RegionId r) {
        return holds(k_[k_.terminator(r)].operands[k_[v].position]);
      });
    return false;
  }

 private:
  /// An assumption about one operand is worth nothing for the other where it fails.
  bool alone(Value v) {
    auto before = seen_;
    if ((*this)(v)) return true;
    seen_ = std::move(before);
    return false;
  }

  bool is_free_carry(Value arg) {
    for (OpId loop : loops_of(arg)) {
      const OpData& d = k_[loop];
      const auto& args = k_[d.regions[0]].args;
      const auto at = static_cast<std::size_t>(std::ranges::find(args, arg) - args.begin());
      if (at == 0 || at >= args.size()) return false;
      seen_.insert(arg);
      return (*this)(d.operands[2 + at]) &&
             (*this)(k_[k_.terminator(d.regions[0])].operands[at - 1]);
    }
    return false;
  }

  /// The loop whose region has the argument.
  std::vector<OpId> loops_of(Value arg) const {
    std::vector<OpId> found;
    walk(k_, k_.body(), [&](OpId op) {
      if (k_[op].opcode != Opcode::For || !found.empty()) return;
      const auto& args = k_[k_[op].regions[0]].args;
      if (std::ranges::find(args, arg) != args.end()) found.push_back(op);
    });
    return found;
  }

  const Kernel& k_;
  std::unordered_set<Value> seen_;
};

}  // namespace

bool is_never_nan(const Kernel& k, Value v) { return NeverNan(k)(v); }

bool loses_to_users(const Kernel& k, Value v, Opcode extreme) {
  bool loses = true;
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    if (!loses || std::ranges::find(d.operands, v) == d.operands.end()) return;
    if (moves_only(d.opcode)) {
      loses = loses_to_users(k, d.results[0], extreme);
      return;
    }
    loses = d.opcode == extreme && ignores_nan(d) && d.operands[0] != d.operands[1] &&
            is_never_nan(k, d.operands[0] == v ? d.operands[1] : d.operands[0]);
  });
  return loses;
}

}  // namespace tegula::ir
