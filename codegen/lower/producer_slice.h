#pragma once
// Slices of a kernel that can run alone, without tiles in registers. Producer slice: the branches
// that issue TMA loads, the scalars that they depend on, and the enclosing loops. Other warps
// synchronize with it only through channels (warp specialization; CUTLASS, sm90 TMA mainloops).
// Carry slice: the scalars that a loop carries past an iteration that another warpgroup runs.
#include <optional>
#include <unordered_set>

#include "ir/kernel.h"

namespace tegula::codegen {

class ProducerSlice {
 public:
  /// Returns nothing if the kernel has no channels, initializes one in a loop or branch, or if a
  /// load depends on more than scalars and memory that the producer can read: a lone warp cannot
  /// take part in a tile's computation.
  static std::optional<ProducerSlice> of(const ir::Kernel& machine);

  /// Returns nothing if the loop carries a value other than a scalar, or a scalar that depends on a
  /// tile.
  static std::optional<ProducerSlice> carry_slice(const ir::Kernel& machine, ir::OpId loop);

  bool contains(ir::OpId op) const { return ops_.contains(op); }
  /// Returns true for a value of the slice. Loops of the slice carry only such values.
  bool contains(ir::Value v) const { return values_.contains(v); }
  /// Returns true for a branch that only the producer thread takes, and for ops inside it.
  bool is_producer_only(ir::OpId op) const { return producers_.contains(op); }

 private:
  explicit ProducerSlice(const ir::Kernel& machine) : k_(&machine) {}
  void find_leaders();
  void need(ir::Value v);
  void need(ir::OpId op);
  bool is_legal() const;

  const ir::Kernel* k_;
  std::unordered_set<ir::OpId> ops_, producers_;
  std::unordered_set<ir::Value> values_;
};

}  // namespace tegula::codegen
