#include "ir/analysis/uniform.h"

#include <algorithm>

#include "ir/analysis/walk_depth.h"

namespace tegula::ir {

bool is_uniform(const Kernel& k, Value v, int depth) {
  if (!k.type(v).is_tile()) return true;
  const OpId def = k[v].def;
  if (!def || depth > kMaxWalkDepth) return false;
  const OpData& d = k[def];
  using enum Opcode;
  if (d.is(Const, Splat)) return true;
  const bool is_moved = d.is(Broadcast, ExpandDims, Reshape, Permute);
  if (!is_moved && info(d.opcode).family != Family::Elementwise) return false;
  return std::ranges::all_of(d.operands, [&](Value o) { return is_uniform(k, o, depth + 1); });
}

}  // namespace tegula::ir
