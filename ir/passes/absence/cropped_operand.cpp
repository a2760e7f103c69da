#include "ir/passes/absence/cropped_operand.h"

#include <algorithm>

#include "ir/analysis/index_facts.h"
#include "ir/gathered_box.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

/// Returns true if dots that sum along `axis` are the only users of the matrix.
bool is_summed(const Kernel& k, const Uses& uses, Value v, std::int64_t axis) {
  const auto is_of_sum = [&](const Uses::Use& use) {
    const OpData& d = k[use.op];
    if (d.opcode == Opcode::Permute) return is_summed(k, uses, d.results[0], 1 - axis);
    return d.opcode == Opcode::Dot && use.operand < 2 && axis == (use.operand == 0 ? 1 : 0);
  };
  return k.type(v).rank() == 2 && !uses.of(v).empty() && std::ranges::all_of(uses.of(v), is_of_sum);
}

}  // namespace

bool clears_operand(const Kernel& k, const Absence& absence, OpId crop) {
  const OpId load = k[k[crop].operands[0]].def;
  const Uses uses(k);
  const auto fill = uses.only(k[crop].results[0]);
  const bool is_box = load && k[load].opcode == Opcode::LoadView && uses.only(k[load].results[0]) &&
                      gathered_dim(k, k[load]) < 0 &&
                      !k.type(k[load].operands[0]).view_facts().is_made &&
                      absence.is_zero_filled(k[load].results[0]);
  const bool is_filled = fill && k[fill->op].opcode == Opcode::FillAbsent && fill->operand == 0 &&
                         k[fill->op].attrs.s(AttrName::kind).empty() &&
                         is_zero(k, k[fill->op].operands[1]);
  return is_box && is_filled &&
         is_summed(k, uses, k[fill->op].results[0], k[crop].attrs.i(AttrName::axis));
}

}  // namespace tegula::ir
