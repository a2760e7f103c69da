#include "ir/analysis/never_nan.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "ir/loop.h"
#include "ir/ramp.h"

namespace tegula::ir {
namespace {

bool moves_only(Opcode o) {
  using enum Opcode;
  return o == Splat || o == Broadcast || o == ExpandDims || o == ConvertLayout || o == Reshape ||
         o == Permute;
}

bool ignores_nan(const OpData& d) {
  return d.is(Opcode::Max, Opcode::Min) && d.attrs.s(AttrName::nan) != "propagate";
}

/// Returns true if a value is never NaN. Assumes that a carry is not NaN while its next value is
/// examined: induction over the iterations.
class NeverNan {
 public:
  explicit NeverNan(const Kernel& k) : k_(k) {}

  bool operator()(Value v) {
    if (!is_float(k_.type(v).dtype())) return true;
    if (!seen_.insert(v).second) return true;
    if (const auto number = number_of(k_, v)) return !std::isnan(*number);
    const auto holds = [&](Value x) { return (*this)(x); };
    using enum Opcode;
    if (const auto merge = merge_of(k_, v); merge && k_[merge->op].opcode != While)
      return std::ranges::all_of(incoming_values(k_, *merge), holds);
    const OpId def = k_[v].def;
    if (!def) return false;
    const OpData& d = k_[def];
    if (moves_only(d.opcode)) return holds(d.operands[0]);
    if (ignores_nan(d)) return std::ranges::any_of(d.operands, [&](Value x) { return alone(x); });
    if (d.opcode == Reduce)
      return d.attrs.s(AttrName::kind) == "max" || d.attrs.s(AttrName::kind) == "min";
    return d.opcode == Select && holds(d.operands[1]) && holds(d.operands[2]);
  }

 private:
  /// Discards the assumptions made for one operand if the proof fails, so that they do not affect
  /// the other operand.
  bool alone(Value v) {
    auto before = seen_;
    if ((*this)(v)) return true;
    seen_ = std::move(before);
    return false;
  }

  const Kernel& k_;
  std::unordered_set<Value> seen_;
};

}  // namespace

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
            NeverNan(k)(d.operands[0] == v ? d.operands[1] : d.operands[0]);
  });
  return loses;
}

}  // namespace tegula::ir
