// Layouts of loads that sorts decide.
#include <algorithm>
#include <functional>

#include "ir/analysis/access_width.h"
#include "ir/passes/layouts/layout_assignment.h"

namespace tegula::ir {

/// A load that ends in a sort along its contiguous dimension, with elementwise ops between them at
/// most, is read where the sort needs it: a thread's run fills 16-byte accesses and the lanes' runs
/// are one behind the other, so that shared memory would gain nothing.
void LayoutAssignment::assign_sorted_loads() {
  constexpr int kWideAccess = 16;
  walk(k_, k_.body(), [&](OpId sort) {
    if (k_[sort].opcode != Opcode::Sort) return;
    const auto axis = static_cast<int>(k_[sort].attrs.i(AttrName::axis));
    const auto shape = k_.type(k_[sort].operands[0]).shape();
    const std::function<void(Value)> visit = [&](Value v) {
      const OpId def = k_[v].def;
      if (!def || !std::ranges::equal(k_.type(v).shape(), shape)) return;
      const OpData& d = k_[def];
      if (info(d.opcode).family == Family::Elementwise)
        for (Value operand : d.operands)
          if (k_.type(operand).is_tile()) visit(operand);
      if (d.opcode != Opcode::LoadView || contiguous_dim(k_, d) != axis) return;
      if (access_elements(k_, d) * size_bytes(k_.type(v).dtype()) >= kWideAccess)
        set(v, sorted(k_[sort]));
    };
    visit(k_[sort].operands[0]);
  });
}

}  // namespace tegula::ir
