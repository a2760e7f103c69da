#include "ir/analysis/toeplitz.h"

#include <algorithm>
#include <cmath>

#include "ir/analysis/invariant_load.h"
#include "ir/ramp.h"

namespace tegula::ir {
namespace {

bool is_long(Opcode o) {
  using enum Opcode;
  return o == Load || o == Log2 || o == Exp2 || o == Sqrt || o == Rsqrt || o == Rcp ||
         o == TanhApprox || o == SinApprox || o == CosApprox;
}

bool is_matrix(Type t) {
  return t.is_tile() && t.rank() == 2 && t.shape()[0] > 1 && t.shape()[1] > 1;
}

/// A repeated ramp, and the dimension along which it runs.
struct RepeatedRamp {
  Ramp ramp;
  int dim;
};
std::optional<RepeatedRamp> repeated_ramp(const Kernel& k, Value v) {
  std::optional<int> dim;
  for (OpId def = k[v].def; def; def = k[v].def) {
    const OpData& d = k[def];
    if (const auto ramp = ramp_of(k, v); ramp && dim) return RepeatedRamp{*ramp, *dim};
    if (d.opcode == Opcode::ExpandDims && !dim)
      dim = 1 - static_cast<int>(d.attrs.i(AttrName::axis));
    else if (!d.is(Opcode::Broadcast, Opcode::ConvertLayout))
      return std::nullopt;
    v = d.operands[0];
  }
  return std::nullopt;
}

}  // namespace

/// Steps of one are as exact as the distance: whole numbers, as long as the float type represents
/// them all.
std::optional<RampSum> ToeplitzAnalysis::ramps(Value v) const {
  const OpData& d = k_[k_[v].def];
  if (d.opcode != Opcode::Add || !d.attrs.i(AttrName::reassoc)) return std::nullopt;
  const auto x = repeated_ramp(k_, d.operands[0]), y = repeated_ramp(k_, d.operands[1]);
  if (!x || !y || x->dim == y->dim) return std::nullopt;
  const Ramp &column = x->dim == 1 ? x->ramp : y->ramp, &row = x->dim == 1 ? y->ramp : x->ramp;
  const auto up = number_of(k_, column.step), down = number_of(k_, row.step);
  if (!up || !down || std::abs(*up) != 1 || *down != -*up) return std::nullopt;
  return RampSum{column.step, column.first, row.first};
}

ToeplitzKind ToeplitzAnalysis::of(Value v) {
  if (const auto it = known_.find(v); it != known_.end()) return it->second;
  const ToeplitzKind found = find(v);
  return known_[v] = found;
}

/// A load from memory that is not written while the kernel runs may move to the uses of its result.
bool ToeplitzAnalysis::may_be_computed(const OpData& d) const {
  if (d.results.size() != 1 || d.operands.empty()) return false;
  return info(d.opcode).family == Family::Elementwise || d.opcode == Opcode::ConvertLayout ||
         (d.opcode == Opcode::Load && is_invariant_load(k_, k_[d.results[0]].def));
}

ToeplitzKind ToeplitzAnalysis::find(Value v) {
  using enum ToeplitzKind;
  const Type type = k_.type(v);
  if (type.is_scalar()) return uniform;
  const OpId def = k_[v].def;
  if (!def || !is_matrix(type)) return none;
  const OpData& d = k_[def];
  if (d.is(Opcode::Const, Opcode::Splat)) return uniform;
  if (const auto& index = indices_.of(v); index && !type.is_pointer()) {
    const Ints& factor = index->factor;
    if (index->is_uniform()) return uniform;
    return factor[0] == -factor[1] && std::abs(factor[1]) == 1 ? distance : none;
  }
  if (this->ramps(v)) return ramp;
  if (!may_be_computed(d)) return none;
  bool varies = false;
  for (Value x : d.operands) {
    const ToeplitzKind kind = of(x);
    if (kind == none) return none;
    // Loop-invariant values are computed before the loop.
    if (kind == computed && k_[k_[x].def].parent != d.parent) return none;
    varies = varies || kind != uniform;
  }
  return varies ? computed : none;
}

bool ToeplitzAnalysis::is_costly(Value v) {
  if (of(v) != ToeplitzKind::computed) return false;
  if (const auto it = costly_.find(v); it != costly_.end()) return it->second;
  const OpData& d = k_[k_[v].def];
  const bool costly =
      is_long(d.opcode) || std::ranges::any_of(d.operands, [&](Value x) { return is_costly(x); });
  return costly_[v] = costly;
}

}  // namespace tegula::ir
