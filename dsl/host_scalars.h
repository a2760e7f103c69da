#pragma once
// Copies scalar computations on the arguments into the launch region, where the host evaluates
// them.
#include <unordered_map>

#include "ir/builder.h"

namespace tegula::dsl {

class HostScalars {
 public:
  HostScalars(const ir::Kernel& kernel, ir::Builder& launch) : k_(kernel), launch_(launch) {}
  /// Returns the value as computed by the host; none if it depends on more than the arguments.
  ir::Value copy(ir::Value v);

 private:
  const ir::Kernel& k_;
  ir::Builder& launch_;
  std::unordered_map<ir::Value, ir::Value> copies_;
};

}  // namespace tegula::dsl
