// Lowers atomic operations on parts of views.
//
// Before:  old = atomic_view V, t, i, j [kind = "add"]
// After:   store_view V, t, i, j [kind = "add"]                       where nothing needs `old`
//          old = crop (atomic_rmw (addptr (view_ptr V), ..), t, inside)      else
// TMA can combine a box with the contents of memory if the old values are not needed
// (ir/analysis/tma_store.h); otherwise threads read the old values.
#include <unordered_set>
#include <vector>

#include "ir/access.h"
#include "ir/pipeline.h"
#include "ir/view_addresses.h"

namespace tegula::ir {
namespace {

void by_address(Kernel& k, Builder& b, OpId op) {
  const BoxAccess a = access_of(k, k[op]);
  const ViewAddresses addresses = box_addresses(b, a);
  Value old = b.op(Opcode::AtomicRmw, {addresses.pointers, a.stored, addresses.inside},
                   {{AttrName::kind, k[op].attrs.s(AttrName::kind)}});
  // The old value is 0 where an index tile selects nothing, as for a gather.
  if (a.gathered_dim() >= 0)
    old = b.select(addresses.inside, old, b.zero(Type::scalar(k.type(old).dtype())));
  for (int i = 0; i < static_cast<int>(a.along.size()); ++i) {
    const AccessAxis& axis = a.along_dim(i);
    if (axis.is_gathered()) continue;
    const Value end = b.op(Opcode::ViewDim, {a.view}, k.type(axis.offset),
                           {{AttrName::axis, a.along[static_cast<std::size_t>(i)]}});
    old = b.op(Opcode::Crop, {old, axis.offset, end}, k.type(old), {{AttrName::axis, i}});
  }
  k.replace_all_uses(k[op].results[0], old);
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
      create_access(b, Opcode::StoreView, access_of(kernel, kernel[op]), kernel[op].attrs);
    kernel.erase(op);
  }
  return !found.empty();
}

}  // namespace tegula::ir
