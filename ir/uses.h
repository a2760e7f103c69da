#pragma once
// Users of the values of a kernel's body.
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// As they were when it was made.
class Uses {
 public:
  struct Use {
    OpId op;
    std::size_t operand;
  };

  explicit Uses(const Kernel& k);

  std::span<const Use> of(Value v) const;
  std::size_t count(Value v) const { return of(v).size(); }
  /// None where there are none, or several.
  std::optional<Use> only(Value v) const;

 private:
  std::unordered_map<Value, std::vector<Use>> uses_;
};

}  // namespace tegula::ir
