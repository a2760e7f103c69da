// Finds boxes that are inside their view, and the divisibility of offsets. Before: tile form.
// After: load_view and store_view have attrs `in_bounds` (view dimensions that need no guard) and
// `offset_divisibility`, and the types of made views contain the known facts of their operands;
// nothing else changed.
#include <fmt/format.h>

#include <numeric>

#include "ir/access.h"
#include "ir/analysis/facts.h"
#include "ir/analysis/index_facts.h"
#include "ir/made_view.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

bool annotate(Kernel& k, OpId op, const Facts& bounds, PassContext& context) {
  BoxAccess a = access_of(k, k[op]);
  const auto& strides = k.type(a.view).view_facts().strides;
  a.divisor = 16;  // no access is wider than 16 elements
  for (std::size_t v = 0; v < a.axes.size(); ++v) {
    AccessAxis& axis = a.axes[v];
    if (strides[v] == 1)
      a.divisor = std::gcd(a.divisor, axis.is_gathered() ? 1 : divisor_of(k, axis.offset));
    if (axis.is_gathered()) continue;
    axis.in_bounds = bounds.is_inside(axis.offset, axis.extent, a.view, static_cast<int>(v), op);
    if (!axis.in_bounds)
      context.remark(
          Remark::Kind::Missed, k[op].loc, "guard kept",
          {{"dimension", fmt::format("{}", v)}, {"extent", fmt::format("{}", axis.extent)}});
  }
  set_access(k[op], a);
  return true;
}

}  // namespace

bool prove_bounds(Kernel& kernel, PassContext& context) {
  bool changed = false;
  // More is known about divisors of operands now than when the view was recorded, in the middle of
  // loops.
  walk(kernel, kernel.body(), [&](OpId op) {
    const OpData& d = kernel[op];
    if (d.opcode != Opcode::MakeView) return;
    kernel.set_type(d.results[0], made_view_type(kernel, d.operands, d.attrs.i(AttrName::align)));
    changed = true;
  });
  const Facts bounds(kernel);
  walk(kernel, kernel.body(), [&](OpId op) {
    const Opcode o = kernel[op].opcode;
    if (o == Opcode::LoadView || o == Opcode::StoreView)
      changed |= annotate(kernel, op, bounds, context);
  });
  return changed;
}

}  // namespace tegula::ir
