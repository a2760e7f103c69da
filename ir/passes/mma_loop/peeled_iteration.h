#pragma once
// Simplifies a peeled first iteration: `select(iv == lo, a, b)` becomes a in front of the loop and
// b in it, and ops that only a needs leave the loop.
#include <unordered_set>

#include "ir/builder.h"
#include "ir/clone_op.h"

namespace tegula::ir {

class PeeledIteration {
 public:
  /// Analyses a loop that still begins with its first iteration, and begins one later when `drop`
  /// is called.
  PeeledIteration(Kernel& k, OpId loop);

  /// In the copy of the body for the first iteration: the result of such an op is in the map, and
  /// there is nothing to clone.
  bool enter(OpId op, ValueMap& map) const;
  /// In the body that is left.
  void drop();

 private:
  bool asks(OpId op, Value first) const;
  bool depends_on_it(OpId op) const;

  Kernel& k_;
  RegionId body_;
  std::unordered_set<Value> conditions_;  ///< true in the first iteration, in no other
  std::vector<OpId> selects_;             ///< by them
};

}  // namespace tegula::ir
