#pragma once
// Records the operations of parts of a mask in the kernel that is being traced.
#include <vector>

#include "dsl/functions/traced_function.h"
#include "ir/kernel.h"
#include "tegula/value.h"

namespace tegula {

/// Records nodes at given positions, each once.
class MaskValues {
 public:
  /// `position` is the position of the queries or of the keys (i32), whichever the nodes depend on.
  MaskValues(const MaskFunction& source, const Tile& b, const Tile& h, const Tile& position);
  Tile at(ir::MaskNodeId id);

 private:
  ir::Value value(ir::MaskNodeId id);
  ir::Value operation(const ir::MaskNode& node);
  ir::Value entry(const ir::MaskNode& node);

  const MaskFunction& source_;
  Tile b_, h_, position_;
  std::vector<ir::Value> values_;  ///< by node; null if not recorded yet
};

}  // namespace tegula
