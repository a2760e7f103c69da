#pragma once
// Slices of a kernel that can run alone, without tiles in registers. The producer slice: the
// branches that issue TMA loads, the scalars these depend on, and the enclosing loops. Other warps
// synchronise with it only through channels (warp specialization; CUTLASS, sm90 TMA mainloops). The
// carry slice: the scalars that a loop carries past an iteration that another warpgroup runs.
#include <optional>
#include <unordered_set>

#include "ir/kernel.h"

namespace tegula::codegen {

class ProducerSlice {
 public:
  /// None if the kernel has no channels, initialises some within a loop or branch, or if a load
  /// depends on more than scalars and memory that the producer can read itself: a warp alone cannot
  /// take part in a tile's computation.
  static std::optional<ProducerSlice> of(const ir::Kernel& machine);

  /// None where the loop carries more than scalars, or one that depends on a tile.
  static std::optional<ProducerSlice> carry_slice(const ir::Kernel& machine, ir::OpId loop);

  bool contains(ir::OpId op) const { return ops_.contains(op); }
  /// Results and region arguments too: a loop of the slice carries only what it needs.
  bool contains(ir::Value v) const { return values_.contains(v); }
  /// The branch that only the producer thread takes, or something in it.
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
