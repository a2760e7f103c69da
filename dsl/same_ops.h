#pragma once
// Compares two recordings of one loop body op by op.
#include <optional>
#include <unordered_map>
#include <utility>

#include "ir/kernel.h"

namespace tegula::dsl {

class BodyComparison {
 public:
  explicit BodyComparison(const ir::Kernel& kernel) : k_(kernel) {}

  /// Declares that `b` in the second recording corresponds to `a` in the first.
  void equate(ir::Value a, ir::Value b) { twin_[a] = b; }
  bool equal(ir::Value a, ir::Value b) const;

  /// Returns the first two ops that differ in the lists beginning with `a` and `b`; none at the end
  /// of a list.
  std::optional<std::pair<ir::OpId, ir::OpId>> run(ir::OpId a, ir::OpId b);

 private:
  bool heads_equal(ir::OpId a, ir::OpId b) const;
  const ir::Kernel& k_;
  std::unordered_map<ir::Value, ir::Value> twin_;
};

}  // namespace tegula::dsl
