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

namespace tegula::ir {
namespace {

/// The box's elements by address.
class Addresses {
 public:
  Addresses(Builder& b, const OpData& op) : b_(b), op_(op), tile_(b.kernel().type(op.operands[1])) {
    const Value view = op.operands[0];
    const int rank = b.kernel().type(view).rank();
    for (int v = 0; v < rank; ++v) add_dimension(view, v);
    pointers = b.op(Opcode::AddPtr, {b.op(Opcode::ViewPtr, {view}), offset_});
  }

  Value pointers, inside;

 private:
  void add_dimension(Value view, int v) {
    const Value at = index(v);
    const Type scalar = b_.kernel().type(op_.operands[2]);
    const auto of_view = [&](Opcode opcode) {
      return b_.op(opcode, {view}, scalar, {{AttrName::axis, v}});
    };
    const Value step = b_.mul(at, of_view(Opcode::ViewStride));
    const Value within = b_.op(Opcode::And, {b_.cmp("ge", at, b_.constant(scalar, std::int64_t{0})),
                                             b_.cmp("lt", at, of_view(Opcode::ViewDim))});
    offset_ = v == 0 ? step : b_.add(offset_, step);
    inside = v == 0 ? within : b_.op(Opcode::And, {inside, within});
  }

  /// Along view dimension `v`, of every element: a scalar where the tile does not run along it.
  Value index(int v) {
    const Value first = op_.operands[2 + static_cast<std::size_t>(v)];
    const auto axes = op_.attrs.ints(AttrName::axes);
    const auto axis = std::ranges::find(axes, std::int64_t{v}) - axes.begin();
    if (axis == std::ssize(axes)) return first;
    const DType dtype = b_.kernel().type(first).dtype();
    const std::int64_t extent = tile_.shape()[static_cast<std::size_t>(axis)];
    const Type line = Type::tile({dtype, false}, std::span(&extent, 1));
    Value at = b_.add(b_.op(Opcode::Arange, {}, line, {{AttrName::start, 0}}), first);
    for (int d = 0; d < tile_.rank(); ++d)
      if (d != axis) at = b_.op(Opcode::ExpandDims, {at}, {{AttrName::axis, d}});
    return tile_.rank() == 1 ? at : b_.op(Opcode::Broadcast, {at}, tile_.with_dtype(dtype));
  }

  Builder& b_;
  const OpData& op_;
  Type tile_;
  Value offset_;
};

void as_store(Kernel& k, Builder& b, OpId op) {
  const OpData& d = k[op];
  b.create(Opcode::StoreView, d.operands, std::span<const Type>(), d.attrs);
}

void by_address(Kernel& k, Builder& b, OpId op) {
  const OpData d = k[op];
  const Addresses at(b, d);
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
