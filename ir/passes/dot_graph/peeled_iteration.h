#pragma once
// Choices that are known where a loop's first iteration stands in front of it: of
// `select(iv == lo, a, b)` that iteration takes a, and all others b.
#include <unordered_set>

#include "ir/kernel.h"

namespace tegula::ir {

class PeeledIteration {
 public:
  PeeledIteration(const Kernel& k, OpId loop);

  /// Whether the op of the body is such a choice.
  bool is_choice(OpId op) const { return selects_.contains(op); }

 private:
  bool asks(OpId op, Value first) const;
  bool depends_on_it(OpId op) const;

  const Kernel& k_;
  RegionId body_;
  std::unordered_set<Value> conditions_;  ///< true in the first iteration, in no other
  std::unordered_set<OpId> selects_;      ///< by them
};

}  // namespace tegula::ir
