#pragma once
// Records the range of keys that a tile of queries attends to in the kernel that is being traced,
// for conditions whose ends are simple enough for every program to recompute.
#include "dsl/functions/traced_function.h"
#include "ir/analysis/mask/solved_conditions.h"
#include "tegula/block_mask.h"

namespace tegula {

class KvRangeAnalysis {
 public:
  explicit KvRangeAnalysis(const MaskFunction& mask)
      : mask_(mask), form_(ir::solve_mask(mask.expr)), limits_(form_, mask_.is_scalar) {}
  KvRangeAnalysis(const KvRangeAnalysis&) = delete;
  KvRangeAnalysis& operator=(const KvRangeAnalysis&) = delete;

  const ir::MaskClosedForm& form() const { return form_; }
  const ir::SolvedConditions& limits() const { return limits_; }

  /// Records the ranges for query rows [first, last]. Conditions that are not affine in q, or whose
  /// arithmetic may wrap around, are treated as unknown.
  KvRanges record(const Tile& first, const Tile& last, const Tile& seqlen_kv) const;

 private:
  MaskFunction mask_;
  ir::MaskClosedForm form_;
  ir::SolvedConditions limits_;
};

}  // namespace tegula
