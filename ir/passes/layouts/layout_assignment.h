#pragma once
// Layout assignment: chooses the layout of each tile of a kernel for the pass assign_layouts. Does
// not change the kernel.
#include <unordered_map>

#include "ir/kernel.h"
#include "ir/pipeline.h"
#include "ir/uses.h"

namespace tegula::ir {

class LinearLayout;

/// Layouts of the operands and the accumulator of one dot.
struct DotLayouts {
  const LinearLayout* a = nullptr;
  const LinearLayout* b = nullptr;
  const LinearLayout* acc = nullptr;
  bool tensor_core = false;  ///< mma.sync, else FMA
};

class LayoutAssignment {
 public:
  LayoutAssignment(const Kernel& k, const PassContext& context);

  /// Returns the layout in which the value is computed. Null if the value is free: it is computed
  /// in the layout that its user requires.
  const LinearLayout* of(Value v) const;
  DotLayouts dot(const OpData& d) const;
  /// Returns the layout of coalesced access for a load or store of this tile.
  const LinearLayout* access(const OpData& box, Type tile) const;
  /// Returns the layout of a load or store of this tile through pointers that promises runs of
  /// neighbours (attr align).
  const LinearLayout* by_runs(const OpData& d, Type tile) const;
  /// Returns the layout of a tile that nothing else determines.
  const LinearLayout* standard(Type tile) const;
  /// Returns the layout in which operand `i` of an op on parts of tiles should arrive.
  const LinearLayout* part_operand(const OpData& d, std::size_t i) const;
  /// Returns true for an op that slices or concatenates tiles, or selects elements by an index.
  static bool is_of_parts(const OpData& d);
  /// Returns the layout in which store_view should receive its value.
  const LinearLayout* store(const OpData& d) const;
  /// Returns the layout in which a sort receives its operands.
  const LinearLayout* sorted(const OpData& sort) const;
  /// Returns true if the value is written to shared memory in the accumulator's layout and stored
  /// from there by TMA.
  bool is_by_tma(const OpData& store) const;

  /// Returns true for an op that can be rematerialized in any layout.
  static bool is_rematerializable(Opcode op);

 private:
  bool has_accumulator_layout(Value v) const;
  const LinearLayout* scan(Type tile, int axis) const;
  void sort(const OpData& d);
  void assign_sorted_loads();
  const LinearLayout* by_lanes(Type line) const;
  const LinearLayout* ranked(const OpData& d) const;
  const LinearLayout* cluster_slice(Type tile) const;
  void cluster_gather(const OpData& d);
  bool is_outside_mainloop(const OpData& load) const;
  void propagate_accumulator_layouts();
  const LinearLayout* aux_layout(const OpData& load) const;
  const LinearLayout* read_aux_layout(const OpData& load) const;
  const LinearLayout* gathered_aux_layout(const OpData& load) const;
  const LinearLayout* of_parts(const OpData& d) const;
  const LinearLayout* of_gather(const OpData& d) const;
  const LinearLayout* of_scatter(const OpData& d) const;
  const LinearLayout* of_concat(const OpData& d) const;
  const LinearLayout* of_expanded(Value v) const;
  const LinearLayout* own_or_standard(Value v) const;
  void assign_remaining();
  void region(RegionId r);
  void op(OpId op);
  void loop(OpId op);
  void set(Value v, const LinearLayout* layout);
  const LinearLayout* first_known(const OpData& d) const;

  const Kernel& k_;
  const Plan& plan_;
  const Schedule* author_schedule_;  ///< the author's
  const Uses uses_;
  bool loads_aux_in_accumulator_layout_;  ///< for auxiliary loads
  std::unordered_map<Value, const LinearLayout*> chosen_;
  /// Sorts, by their first result, whose operand keeps its layout.
  std::unordered_map<Value, const LinearLayout*> kept_orders_;
  /// For values that have no layout yet: the layout of the operand they are combined with.
  std::unordered_map<Value, const LinearLayout*> neighbour_layouts_;
  /// For tiles in chains of flips: the layout that their flip requires; null if it accepts any.
  std::unordered_map<Value, const LinearLayout*> flip_layouts_;
  bool changed_ = false;
  bool accumulators_have_layouts_ = false;
};

}  // namespace tegula::ir
