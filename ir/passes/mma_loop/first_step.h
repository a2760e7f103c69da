#pragma once
// What a loop does in its first step only, where that step is peeled: `select(iv == lo, a, b)` is a
// in front of the loop and b in it, and what only a needs goes from the loop.
#include <unordered_set>

#include "ir/builder.h"
#include "ir/clone_op.h"

namespace tegula::ir {

class FirstStep {
 public:
  /// Of a loop that still begins with its first step, and begins a step later when `drop` is
  /// called.
  FirstStep(Kernel& k, OpId loop);

  /// In the copy of the body that is the first step: such an op's result is what the map says, and
  /// there is nothing to clone.
  bool enter(OpId op, ValueMap& map) const;
  /// In the body that is left.
  void drop();

 private:
  bool asks(OpId op, Value first) const;
  bool depends_on_it(OpId op) const;

  Kernel& k_;
  RegionId body_;
  std::unordered_set<Value> conditions_;  ///< true in the first step, in no other
  std::vector<OpId> selects_;             ///< by them
};

}  // namespace tegula::ir
