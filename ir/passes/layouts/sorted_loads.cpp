// Layouts of loads that are determined by sorts and by ranks of keys.
#include <algorithm>
#include <functional>
#include <unordered_set>

#include "ir/analysis/access_width.h"
#include "ir/layout/distributed.h"
#include "ir/passes/layouts/layout_assignment.h"

namespace tegula::ir {
namespace {

/// Visits the ops of the shape of `v` that it is computed from, through elementwise ops.
void visit_elementwise(const Kernel& k, Value v, const std::function<void(OpId)>& visit) {
  const auto shape = k.type(v).shape();
  std::unordered_set<Value> seen;
  const std::function<void(Value)> from = [&](Value value) {
    const OpId def = k[value].def;
    if (!def || !k.type(value).is_tile() || !std::ranges::equal(k.type(value).shape(), shape))
      return;
    if (!seen.insert(value).second) return;
    if (info(k[def].opcode).family == Family::Elementwise)
      for (Value operand : k[def].operands) from(operand);
    visit(def);
  };
  from(v);
}

/// Returns true if ranks of keys determine where the scatter puts values.
bool is_by_ranks(const Kernel& k, const OpData& scatter) {
  bool has_ranks = false;
  visit_elementwise(k, scatter.operands[1],
                    [&](OpId op) { has_ranks |= k[op].opcode == Opcode::KeyRanks; });
  return has_ranks;
}

}  // namespace

/// A load that is sorted along its contiguous dimension, with at most elementwise ops in between,
/// is read in the layout of the sort: a thread's run fills 16-byte accesses and the runs of lanes
/// are consecutive, so that staging in shared memory would gain nothing. For the same reason,
/// ranked keys, and values that are scattered by ranks, are read as consecutive elements of each
/// warp.
void LayoutAssignment::assign_sorted_loads() {
  constexpr int kWideAccess = 16;
  const auto assign = [&](Value end, int axis, int bytes, const LinearLayout* layout) {
    visit_elementwise(k_, end, [&](OpId op) {
      const OpData& d = k_[op];
      if (d.opcode != Opcode::LoadView || contiguous_dim(k_, d) != axis) return;
      const Value v = d.results[0];
      if (access_elements(k_, d) * size_bytes(k_.type(v).dtype()) >= bytes) set(v, layout);
    });
  };
  walk(k_, k_.body(), [&](OpId op) {
    const OpData& d = k_[op];
    if (d.opcode == Opcode::Sort)
      assign(d.operands[0], static_cast<int>(d.attrs.i(AttrName::axis)), kWideAccess, sorted(d));
    if (d.opcode == Opcode::KeyRanks && is_used(k_, d.results[0]))
      assign(d.operands[0], 0, 0, by_lanes(k_.type(d.operands[0])));
    if (d.opcode == Opcode::Scatter && k_.type(d.operands[2]).rank() == 1 && is_by_ranks(k_, d))
      assign(d.operands[2], 0, 0, by_lanes(k_.type(d.operands[2])));
  });
}

/// Returns a layout in which each warp has consecutive elements of a line, lane by lane.
const LinearLayout* LayoutAssignment::by_lanes(Type line) const {
  return intern_layout(rank_layout(static_cast<int>(line.count()), plan_.num_warps));
}

/// Ranks follow the order of the line. If only counts are used, keys may have any layout in which
/// every thread has its own.
const LinearLayout* LayoutAssignment::ranked(const OpData& d) const {
  const LinearLayout* own = of(d.operands[0]);
  const bool takes_any = own && !is_used(k_, d.results[0]) &&
                         own->free_bits(HwDim::Register) == 0 && own->free_bits(HwDim::Lane) == 0 &&
                         own->free_bits(HwDim::Warp) == 0;
  return takes_any ? own : by_lanes(k_.type(d.operands[0]));
}

}  // namespace tegula::ir
