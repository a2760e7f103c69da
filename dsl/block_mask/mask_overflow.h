#pragma once
// Whether the arithmetic of a mask stays within its type for one tile of queries and all keys,
// where that is up to Scalars of the launch.
#include "dsl/block_mask/solved_conditions.h"

namespace tegula {

class MaskOverflow {
 public:
  MaskOverflow(const SolvedConditions& limits, const Tile& first, const Tile& last,
               const Tile& seqlen_kv);

  /// i1: no node of the list, nor what it is computed from, leaves i32 or divides by less than 1.
  /// The nodes are such that SolvedConditions::is_checkable.
  Tile no_overflow(const std::vector<ir::MaskNodeId>& nodes);

 private:
  /// In 64 bits, so that it is exact for operands of 32.
  struct Wide {
    Tile lo, hi;
  };
  Wide bounds(ir::MaskNodeId id);
  Wide operation(const ir::MaskNode& node);
  /// Bounds of an op's result from those of its operands.
  using Fn = Wide (MaskOverflow::*)(const Wide& a, const Wide& b);
  Wide negation(const Wide& a, const Wide&);
  Wide sum(const Wide& a, const Wide& b);
  Wide difference(const Wide& a, const Wide& b);
  Wide product(const Wide& a, const Wide& b);
  /// Bounds of quotients and remainders by a single number.
  Wide division(const Wide& a, const Wide& b);
  void require(const Tile& condition);

  const SolvedConditions& limits_;
  Tile first_, last_, length_;
  std::optional<Tile> fits_;
};

}  // namespace tegula
