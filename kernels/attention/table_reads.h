#pragma once
// Checks that the tensors which a mask and a score read have an entry for every position of a call.
#include <memory>
#include <optional>

#include "kernels/attention/heuristics.h"
#include "tegula/functions.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// The reads of tensors by the mask and the score of a spec.
class AttentionTables {
 public:
  explicit AttentionTables(std::shared_ptr<const AttentionHeuristics> of);

  /// Throws T1664 if an argument of the mask or score indexes a tensor directly that has too few
  /// entries. Positions are not checked if the call does not determine which are visited: with
  /// sequences of different lengths, and with ranges or lists of the caller.
  void check(const Tensor& Q, const Tensor& K, const CuSeqlens& lengths) const;
  /// Throws T1664 if a tensor lacks entries for the requests or the heads of a paged call.
  void check_paged(std::int64_t requests, std::int64_t heads) const;
  /// Adds a launch that evaluates mask and score for all pairs of the call, and reports elements
  /// that are read outside their tensor (T1314). Only for `cpu` and `sim`; adds nothing without
  /// tensors, and under a block list of the caller. `call` has no packed heads.
  void add_checks(PlanBuilder& plan, const AttentionCall& call, PlanSlot cu_q,
                  PlanSlot cu_kv) const;

 private:
  using Argument = TableReads::Argument;
  /// Calls `use` with the reads of the mask and of the score, and with the function's name.
  template <class Use>
  void each(const Use& use) const {
    if (mask_) use(*mask_, "mask");
    if (score_) use(*score_, "score");
  }
  void check(const TableReads& reads, const char* function, Argument argument, const char* name,
             std::int64_t count) const;

  const AttentionSpec& spec() const { return facts_->spec; }

  std::shared_ptr<const AttentionHeuristics> facts_;
  std::optional<TableReads> mask_, score_;
  std::optional<KernelOf<Scalar<i32>, Scalar<i32>, Scalar<i32>, Scalar<i32>,
                         std::optional<In<i32, 1>>, std::optional<In<i32, 1>>>>
      kernel_;
};

}  // namespace tegula::kernels
