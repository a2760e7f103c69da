#pragma once
// Parts of a kernel that can be run alone, without tiles in registers.
// What a warp of its own needs to issue all bulk copies: the leader's branches, the scalars they
// are computed from and the loops around them. The rest never waits for that warp except through
// channels (warp specialisation; CUTLASS, sm90 TMA mainloops).
// What a loop carries on: the scalars they are computed from, of a turn that somebody else runs.
#include <optional>
#include <unordered_set>

#include "ir/kernel.h"

namespace tegula::codegen {

class CopySlice {
 public:
  /// None where the kernel has no channels, or makes some ready within a loop or branch, or where a
  /// copy depends on more than scalars and what it can read itself: a warp alone cannot take part
  /// in a tile's computation.
  static std::optional<CopySlice> of(const ir::Kernel& machine);

  /// None where the loop carries more than scalars, or one that depends on a tile.
  static std::optional<CopySlice> of_carries(const ir::Kernel& machine, ir::OpId loop);

  bool contains(ir::OpId op) const { return ops_.contains(op); }
  /// Results and region arguments too: a loop of the slice carries only what it needs.
  bool contains(ir::Value v) const { return values_.contains(v); }
  /// The branch that only the leader takes, or something in it.
  bool is_leaders(ir::OpId op) const { return leaders_.contains(op); }

 private:
  explicit CopySlice(const ir::Kernel& machine) : k_(&machine) {}
  void find_leaders();
  void need(ir::Value v);
  void need(ir::OpId op);
  bool is_legal() const;

  const ir::Kernel* k_;
  std::unordered_set<ir::OpId> ops_, leaders_;
  std::unordered_set<ir::Value> values_;
};

}  // namespace tegula::codegen
