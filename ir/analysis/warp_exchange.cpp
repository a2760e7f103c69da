#include "ir/analysis/warp_exchange.h"

#include "ir/layout/conversion.h"
#include "ir/layout/reduction.h"

namespace tegula::ir {

bool exchanges_between_warps(const Kernel& k, const OpData& d) {
  using enum Opcode;
  if (d.opcode == ConvertLayout) {
    const Type from = k.type(d.operands[0]), to = k.type(d.results[0]);
    if (!from.layout() || !to.layout()) return false;
    const int bytes = to.is_pointer() ? 8 : size_bytes(to.dtype());
    ConversionOptions within_warps;
    within_warps.allow_shared = false;
    return !plan_conversion(*from.layout(), *to.layout(), bytes, within_warps);
  }
  if (!d.is(Reduce, ArgReduce, ReduceWith)) return false;
  const Type tile = k.type(d.operands[0]);
  if (!tile.layout()) return false;
  const auto plan = plan_reduction(*tile.layout(), static_cast<int>(d.attrs.i(AttrName::axis)));
  return plan && plan->needs_shared();
}

}  // namespace tegula::ir
