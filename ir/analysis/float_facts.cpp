#include "ir/analysis/float_facts.h"

#include <algorithm>
#include <cmath>

#include "ir/analysis/facts.h"
#include "ir/ramp.h"

namespace tegula::ir {
namespace {

/// Returns the value that `v` repeats or rearranges.
Value repeated(const Kernel& k, Value v) {
  using enum Opcode;
  for (OpId def = k[v].def; def; def = k[v].def) {
    const Opcode o = k[def].opcode;
    if (o != Splat && o != Broadcast && o != ExpandDims && o != ConvertLayout) break;
    v = k[def].operands[0];
  }
  return v;
}

}  // namespace

FloatFacts::FloatFacts(const Kernel& k) : k_(k) {
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::Assume || !states_fact(k, op)) return;
    const OpId fact = k[k[op].operands[0]].def;
    if (!fact || k[fact].opcode != Opcode::Cmp) return;
    const auto bound = number_of(k, k[fact].operands[1]);
    if (k[fact].attrs.s(AttrName::pred) == "gt" && bound && *bound >= 0)
      positive_.insert(k[fact].operands[0]);
  });
}

bool FloatFacts::is_positive(Value v) const {
  if (positive_.contains(v)) return true;
  if (const auto number = number_of(k_, v)) return *number > 0 && !std::isinf(*number);
  const OpId def = k_[v].def;
  using enum Opcode;
  if (!def || !k_[def].is(Mul, Div, Rcp)) return false;
  return std::ranges::all_of(k_[def].operands, [&](Value x) { return is_positive(x); });
}

bool FloatFacts::is_never_infinite(Value v) const {
  v = repeated(k_, v);
  if (const auto number = number_of(k_, v)) return !std::isinf(*number);
  const OpId def = k_[v].def;
  if (!def) return false;
  const auto& operands = k_[def].operands;
  if (k_[def].opcode == Opcode::Select)
    return is_never_infinite(operands[1]) && is_never_infinite(operands[2]);
  return k_[def].opcode == Opcode::Exp2 && is_at_most_zero(operands[0]);
}

/// Recognizes a - max(a, ..), optionally times a positive number.
bool FloatFacts::is_at_most_zero(Value v) const {
  v = repeated(k_, v);
  if (const auto number = number_of(k_, v)) return *number <= 0;
  const OpId def = k_[v].def;
  if (!def) return false;
  const auto& operands = k_[def].operands;
  if (k_[def].opcode == Opcode::Sub) return is_at_least(operands[1], operands[0]);
  if (k_[def].opcode != Opcode::Mul) return false;
  const auto is_scaled = [&](Value x, Value by) {
    return is_positive(repeated(k_, by)) && is_at_most_zero(x);
  };
  return is_scaled(operands[0], operands[1]) || is_scaled(operands[1], operands[0]);
}

bool FloatFacts::is_at_least(Value v, Value least) const {
  v = repeated(k_, v);
  if (v == repeated(k_, least)) return true;
  const OpId def = k_[v].def;
  if (!def) return false;
  const auto& operands = k_[def].operands;
  const auto is_one = [&](Value x) { return is_at_least(x, least); };
  if (k_[def].opcode == Opcode::Max) return std::ranges::any_of(operands, is_one);
  return k_[def].opcode == Opcode::Select && is_one(operands[1]) && is_one(operands[2]);
}

}  // namespace tegula::ir
