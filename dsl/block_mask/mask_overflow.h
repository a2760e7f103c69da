#pragma once
// Tests whether the arithmetic of a mask stays within its type for one tile of queries and all
// keys, if that depends on Scalars of the launch.
#include "dsl/functions/traced_function.h"
#include "ir/analysis/mask/interval_rules.h"
#include "ir/analysis/mask/solved_conditions.h"
#include "tegula/tegula.h"

namespace tegula {

class MaskOverflow {
 public:
  MaskOverflow(const ir::SolvedConditions& limits, const MaskFunction& mask, const Tile& first,
               const Tile& last, const Tile& seqlen_kv);

  /// Returns an i1 that is true if no node of the list, nor any of its operands, leaves i32 or
  /// divides by less than 1. SolvedConditions::is_checkable must hold for the nodes.
  Tile no_overflow(const std::vector<ir::MaskNodeId>& nodes);

 private:
  /// Bounds in 64 bits, so that they are exact for operands of 32 bits.
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
