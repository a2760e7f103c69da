#pragma once
// Which layout each tile of a kernel should have: the plan of the pass assign_layouts. Reads only.
#include <unordered_map>

#include "ir/kernel.h"
#include "ir/plan.h"

namespace tegula::ir {

class LinearLayout;

/// Layouts of the operands and the accumulator of one dot.
struct DotLayouts {
  const LinearLayout* a = nullptr;
  const LinearLayout* b = nullptr;
  const LinearLayout* acc = nullptr;
  bool tensor_core = false;  ///< mma.sync, else FMA
};

class LayoutChoice {
 public:
  LayoutChoice(const Kernel& k, const Plan& plan);

  /// The layout in which the value is computed; null where it is free: made in whatever layout its
  /// user wants.
  const LinearLayout* of(Value v) const;
  DotLayouts dot(const OpData& d) const;
  /// Layout of coalesced access for a load or store of this tile.
  const LinearLayout* access(const OpData& box, Type tile) const;
  /// A tile that nothing else decides.
  const LinearLayout* standard(Type tile) const;
  /// What store_view should receive its value in.
  const LinearLayout* store(const OpData& d) const;
  /// Its value goes through shared memory as the sums lie, and from there by TMA.
  bool is_by_tma(const OpData& store) const;

  /// True for an op that can be made again in any layout.
  static bool is_free_op(Opcode op);

 private:
  bool lies_as_sums(Value v) const;
  const LinearLayout* scan(Type tile, int axis) const;
  const LinearLayout* cluster_share(Type tile) const;
  bool is_behind_products(const OpData& load) const;
  void meet_sums();
  const LinearLayout* beside_sums(const OpData& load) const;
  const LinearLayout* read_beside_sums(const OpData& load) const;
  const LinearLayout* gathered_beside_sums(const OpData& load) const;
  void settle();
  void region(RegionId r);
  void op(OpId op);
  void loop(OpId op);
  void set(Value v, const LinearLayout* layout);
  const LinearLayout* first_known(const OpData& d) const;

  const Kernel& k_;
  const Plan& plan_;
  bool wants_loads_as_sums_;  ///< of tiles beside operands
  std::unordered_map<Value, const LinearLayout*> chosen_;
  /// Of values without a layout: that of those which they meet.
  std::unordered_map<Value, const LinearLayout*> met_;
  bool changed_ = false;
  bool sums_are_settled_ = false;
};

}  // namespace tegula::ir
