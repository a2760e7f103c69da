#include "ir/analysis/scatter_update.h"

#include <algorithm>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"

namespace tegula::ir {
namespace {

/// Longer computations are not followed.
constexpr std::size_t kMaxValues = 100;

bool is_load_of(const Kernel& k, OpId load, OpId store) {
  if (k[store].opcode == Opcode::Store)
    return k[load].opcode == Opcode::Load && is_same(k, k[load].operands[0], k[store].operands[0]);
  if (k[load].opcode != Opcode::LoadView) return false;
  const BoxAccess from = access_of(k, k[load]), to = access_of(k, k[store]);
  const auto is_same_axis = [&](const AccessAxis& a, const AccessAxis& b) {
    return is_same(k, a.offset, b.offset);
  };
  return from.view == to.view && std::ranges::equal(from.axes, to.axes, is_same_axis);
}

bool scatters(const Kernel& k, OpId store) {
  const OpData& d = k[store];
  if (d.opcode == Opcode::Store) return k.type(d.operands[0]).is_tile();
  return d.opcode == Opcode::StoreView && access_of(k, d).gathered_dim() >= 0;
}

}  // namespace

bool updates_elements(const Kernel& k, OpId store) {
  if (!scatters(k, store)) return false;
  std::vector<Value> found{k[store].operands[1]};
  for (std::size_t i = 0; i < std::min(found.size(), kMaxValues); ++i) {
    const OpId def = k[found[i]].def;
    if (!def) continue;
    if (is_load_of(k, def, store)) return true;
    if (info(k[def].opcode).is_elementwise())
      found.insert(found.end(), k[def].operands.begin(), k[def].operands.end());
  }
  return false;
}

}  // namespace tegula::ir
