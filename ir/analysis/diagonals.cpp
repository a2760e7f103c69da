#include "ir/analysis/diagonals.h"

#include <algorithm>
#include <cstdlib>

#include "ir/analysis/constant_read.h"

namespace tegula::ir {
namespace {

bool is_long(Opcode o) {
  using enum Opcode;
  return o == Load || o == Log2 || o == Exp2 || o == Sqrt || o == Rsqrt || o == Rcp || o == Div ||
         o == Rem || o == TanhApprox || o == SinApprox || o == CosApprox;
}

bool is_matrix(Type t) {
  return t.is_tile() && t.rank() == 2 && t.shape()[0] > 1 && t.shape()[1] > 1;
}

}  // namespace

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
  if (d.opcode == Opcode::Const || d.opcode == Opcode::Splat) return uniform;
  if (const auto& index = indices_.of(v)) {
    const Ints& factor = index->factor;
    if (index->is_uniform()) return uniform;
    return factor[0] == -factor[1] && std::abs(factor[1]) == 1 ? distance : other;
  }
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
