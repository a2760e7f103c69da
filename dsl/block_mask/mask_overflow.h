#pragma once
// Whether the arithmetic of a mask stays within its type for one tile of queries and all keys,
// where that is up to Scalars of the launch.
#include "dsl/functions/traced_function.h"
#include "ir/analysis/mask/interval_rules.h"
#include "ir/analysis/mask/solved_conditions.h"
#include "tegula/tegula.h"

namespace tegula {

class MaskOverflow {
 public:
  MaskOverflow(const ir::SolvedConditions& limits, const MaskFunction& mask, const Tile& first,
               const Tile& last, const Tile& seqlen_kv);

  /// i1: no node of the list, nor what it is computed from, leaves i32 or divides by less than 1.
  /// The nodes are such that SolvedConditions::is_checkable.
  Tile no_overflow(const std::vector<ir::MaskNodeId>& nodes);

 private:
  /// In 64 bits, so that it is exact for operands of 32.
  using Wide = ir::Enclosure<Tile>;
  Wide bounds(ir::MaskNodeId id);
  Wide operation(const ir::MaskNode& node);
  void require(const Tile& condition);

  const ir::SolvedConditions& limits_;
  const MaskFunction& mask_;
  Tile first_, last_, length_;
  std::optional<Tile> fits_;
};

}  // namespace tegula
