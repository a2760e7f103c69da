// Atomic operations on parts of views.
//
// Before:  old = atomic_view V, t, i, j [kind = "add"]
// After:   store_view V, t, i, j [kind = "add"]                       where nothing needs `old`
//          old = crop (atomic_rmw (addptr (view_ptr V), ..), t, inside)      else
// A box that nothing comes back from is one that TMA can combine with what is there
// (ir/analysis/tma_store.h); what was there is read by the threads.
#include <algorithm>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"
#include "ir/pipeline.h"
#include "ir/view_addresses.h"

namespace tegula::ir {
namespace {

/// Along view dimension `v`, of every element of the box: a scalar where its tile does not run
/// along it.
Value index_along(Builder& b, const OpData& op, int v) {
  const Type tile = b.kernel().type(op.operands[1]);
  const Value first = op.operands[2 + static_cast<std::size_t>(v)];
  const auto axes = op.attrs.ints(AttrName::axes);
  const auto axis = std::ranges::find(axes, std::int64_t{v}) - axes.begin();
  if (axis == std::ssize(axes)) return first;
  const DType dtype = b.kernel().type(first).dtype();
  const std::int64_t extent = tile.shape()[static_cast<std::size_t>(axis)];
  const Type line = Type::tile({dtype, false}, std::span(&extent, 1));
  Value at = b.add(b.op(Opcode::Arange, {}, line, {{AttrName::start, 0}}), first);
  for (int d = 0; d < tile.rank(); ++d)
    if (d != axis) at = b.op(Opcode::ExpandDims, {at}, {{AttrName::axis, d}});
  return tile.rank() == 1 ? at : b.op(Opcode::Broadcast, {at}, tile.with_dtype(dtype));
}

void as_store(Kernel& k, Builder& b, OpId op) {
  const OpData& d = k[op];
  b.create(Opcode::StoreView, d.operands, std::span<const Type>(), d.attrs);
}

void by_address(Kernel& k, Builder& b, OpId op) {
  const OpData d = k[op];
  // A view of rank 0 has no offset that would tell the index type.
  const Type index = d.operands.size() > 2 ? k.type(d.operands[2]) : Type::scalar(DType::i32);
  const ViewAddresses at =
      view_addresses(b, d.operands[0], index, [&](int v) { return index_along(b, d, v); });
  Value old = b.op(Opcode::AtomicRmw, {at.pointers, d.operands[1], at.inside},
                   {{AttrName::kind, d.attrs.s(AttrName::kind)}});
  const auto axes = d.attrs.ints(AttrName::axes);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Value first = d.operands[2 + static_cast<std::size_t>(axes[i])];
    const Value end =
        b.op(Opcode::ViewDim, {d.operands[0]}, k.type(first), {{AttrName::axis, axes[i]}});
    old = b.op(Opcode::Crop, {old, first, end}, k.type(old),
               {{AttrName::axis, static_cast<std::int64_t>(i)}});
  }
  k.replace_all_uses(d.results[0], old);
}

}  // namespace

bool view_atomics(Kernel& kernel, PassContext&) {
  std::vector<OpId> found;
  std::unordered_set<Value> used;
  walk(kernel, kernel.body(), [&](OpId op) {
    if (kernel[op].opcode == Opcode::AtomicView) found.push_back(op);
    used.insert(kernel[op].operands.begin(), kernel[op].operands.end());
  });
  for (OpId op : found) {
    Builder b(kernel);
    b.before(op);
    b.loc = kernel[op].loc;
    if (used.contains(kernel[op].results[0]))
      by_address(kernel, b, op);
    else
      as_store(kernel, b, op);
    kernel.erase(op);
  }
  return !found.empty();
}

}  // namespace tegula::ir
