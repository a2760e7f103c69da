// Finds boxes that are inside their view, and the divisibility of offsets. Before: tile form.
// After: load_view and store_view have attrs `in_bounds` (view dimensions that need no guard) and
// `offset_divisibility`, and the types of made views contain the known facts of their operands;
// nothing else changed.
#include <fmt/format.h>

#include <numeric>

#include "ir/analysis/index_facts.h"
#include "ir/gathered_box.h"
#include "ir/made_view.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// Returns the extent of the box along a view dimension; 1 if no tile dimension runs along it.
std::int64_t box_extent(const Kernel& k, const OpData& d, std::size_t view_dim) {
  const auto axes = d.attrs.ints(AttrName::axes);
  const Type tile = d.opcode == Opcode::LoadView ? k.type(d.results[0]) : k.type(d.operands[1]);
  for (std::size_t t = 0; t < axes.size(); ++t)
    if (axes[t] == static_cast<std::int64_t>(view_dim)) return tile.shape()[t];
  return 1;
}

bool annotate(Kernel& k, OpId op, const IndexFacts& bounds, PassContext& context) {
  OpData& d = k[op];
  const Value view = d.operands[0];
  const Type type = k.type(view);
  const std::size_t first = d.opcode == Opcode::LoadView ? 1 : 2;
  Ints inside;
  std::int64_t offset_divisibility = 16;  // no access is wider than 16 elements
  for (std::size_t v = 0; v < type.shape().size(); ++v) {
    const Value offset = d.operands[first + v];
    if (is_gathered(k, d, v)) {
      if (type.view_facts().strides[v] == 1) offset_divisibility = 1;
      continue;
    }
    const std::int64_t extent = box_extent(k, d, v);
    if (bounds.is_inside(offset, extent, view, static_cast<int>(v), op))
      inside.push_back(static_cast<std::int64_t>(v));
    else
      context.remark(Remark::Kind::Missed, d.loc, "guard kept",
                     {{"dimension", fmt::format("{}", v)}, {"extent", fmt::format("{}", extent)}});
    if (type.view_facts().strides[v] == 1)
      offset_divisibility = std::gcd(offset_divisibility, divisor_of(k, offset));
  }
  if (!inside.empty()) d.attrs.set(AttrName::in_bounds, inside);
  d.attrs.set(AttrName::offset_divisibility, offset_divisibility);
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
  const IndexFacts bounds(kernel);
  walk(kernel, kernel.body(), [&](OpId op) {
    const Opcode o = kernel[op].opcode;
    if (o == Opcode::LoadView || o == Opcode::StoreView)
      changed |= annotate(kernel, op, bounds, context);
  });
  return changed;
}

}  // namespace tegula::ir
