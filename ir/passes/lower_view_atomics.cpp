// Lowers atomic operations on parts of views.
//
// Before:  old = atomic_view V, t, i, j [kind = "add"]
// After:   store_view V, t, i, j [kind = "add"]                       where nothing needs `old`
//          old = crop (atomic_rmw (addptr (view_ptr V), ..), t, inside)      else
// TMA can combine a box with the contents of memory if the old values are not needed
// (ir/analysis/tma_store.h); otherwise threads read the old values.
#include <unordered_set>
#include <vector>

#include "ir/builder.h"
#include "ir/gathered_box.h"
#include "ir/pipeline.h"
#include "ir/view_addresses.h"

namespace tegula::ir {
namespace {

void as_store(Kernel& k, Builder& b, OpId op) {
  const OpData& d = k[op];
  b.create(Opcode::StoreView, d.operands, std::span<const Type>(), d.attrs);
}

void by_address(Kernel& k, Builder& b, OpId op) {
  const OpData d = k[op];
  const ViewAddresses at = box_addresses(b, d, k.type(d.operands[1]));
  Value old = b.op(Opcode::AtomicRmw, {at.pointers, d.operands[1], at.inside},
                   {{AttrName::kind, d.attrs.s(AttrName::kind)}});
  const auto axes = d.attrs.ints(AttrName::axes);
  const int gathered = gathered_dim(k, d);
  // The old value is 0 where an index tile selects nothing, as for a gather.
  if (gathered >= 0) old = b.select(at.inside, old, b.zero(Type::scalar(k.type(old).dtype())));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (static_cast<int>(i) == gathered) continue;
    const Value first = d.operands[2 + static_cast<std::size_t>(axes[i])];
    const Value end =
        b.op(Opcode::ViewDim, {d.operands[0]}, k.type(first), {{AttrName::axis, axes[i]}});
    old = b.op(Opcode::Crop, {old, first, end}, k.type(old),
               {{AttrName::axis, static_cast<std::int64_t>(i)}});
  }
  k.replace_all_uses(d.results[0], old);
}

}  // namespace

bool lower_view_atomics(Kernel& kernel, PassContext&) {
  std::vector<OpId> found;
  std::unordered_set<Value> used;
  walk(kernel, kernel.body(), [&](OpId op) {
    if (kernel[op].opcode == Opcode::AtomicView) found.push_back(op);
    used.insert(kernel[op].operands.begin(), kernel[op].operands.end());
  });
  for (OpId op : found) {
    Builder b(kernel, op);
    if (used.contains(kernel[op].results[0]))
      by_address(kernel, b, op);
    else
      as_store(kernel, b, op);
    kernel.erase(op);
  }
  return !found.empty();
}

}  // namespace tegula::ir
