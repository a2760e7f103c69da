#include "ir/analysis/diagonals.h"

#include <algorithm>
#include <cmath>

#include "ir/analysis/constant_read.h"
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

/// A ramp that is repeated, and along which dimension it lies.
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

/// Steps of one are as exact as the distance is: whole numbers, as long as floats have them all.
std::optional<RampSum> Diagonals::ramps(Value v) const {
  const OpData& d = k_[k_[v].def];
  if (d.opcode != Opcode::Add || !d.attrs.i(AttrName::relaxed)) return std::nullopt;
  const auto x = repeated_ramp(k_, d.operands[0]), y = repeated_ramp(k_, d.operands[1]);
  if (!x || !y || x->dim == y->dim) return std::nullopt;
  const Ramp &column = x->dim == 1 ? x->ramp : y->ramp, &row = x->dim == 1 ? y->ramp : x->ramp;
  const auto up = number_of(k_, column.step), down = number_of(k_, row.step);
  if (!up || !down || std::abs(*up) != 1 || *down != -*up) return std::nullopt;
  return RampSum{column.step, column.first, row.first};
}

OnDiagonals Diagonals::of(Value v) {
  if (const auto it = known_.find(v); it != known_.end()) return it->second;
  const OnDiagonals found = find(v);
  return known_[v] = found;
}

/// What no one writes while the kernel runs may be read where its results are wanted.
bool Diagonals::may_be_computed(const OpData& d) const {
  if (d.results.size() != 1 || d.operands.empty()) return false;
  return info(d.opcode).family == Family::Elementwise || d.opcode == Opcode::ConvertLayout ||
         (d.opcode == Opcode::Load && is_constant_load(k_, k_[d.results[0]].def));
}

OnDiagonals Diagonals::find(Value v) {
  using enum OnDiagonals;
  const Type type = k_.type(v);
  if (type.is_scalar()) return uniform;
  const OpId def = k_[v].def;
  if (!def || !is_matrix(type)) return other;
  const OpData& d = k_[def];
  if (d.is(Opcode::Const, Opcode::Splat)) return uniform;
  if (const auto& index = indices_.of(v)) {
    const Ints& factor = index->factor;
    if (index->is_uniform()) return uniform;
    return factor[0] == -factor[1] && std::abs(factor[1]) == 1 ? distance : other;
  }
  if (this->ramps(v)) return ramps;
  if (!may_be_computed(d)) return other;
  bool varies = false;
  for (Value x : d.operands) {
    const OnDiagonals kind = of(x);
    if (kind == other) return other;
    // What a loop does not change is computed in front of it.
    if (kind == computed && k_[k_[x].def].parent != d.parent) return other;
    varies = varies || kind != uniform;
  }
  return varies ? computed : other;
}

bool Diagonals::is_costly(Value v) {
  if (of(v) != OnDiagonals::computed) return false;
  if (const auto it = costly_.find(v); it != costly_.end()) return it->second;
  const OpData& d = k_[k_[v].def];
  const bool costly =
      is_long(d.opcode) || std::ranges::any_of(d.operands, [&](Value x) { return is_costly(x); });
  return costly_[v] = costly;
}

}  // namespace tegula::ir
