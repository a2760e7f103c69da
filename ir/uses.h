#pragma once
// Users of the values of a kernel's body.
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// The uses at the time of construction.
class Uses {
 public:
  struct Use {
    OpId op;
    std::size_t operand;
  };

  explicit Uses(const Kernel& k);

  std::span<const Use> of(Value v) const;
  std::size_t count(Value v) const { return of(v).size(); }
  /// Returns the single use of the value; nothing if there are none or several.
  std::optional<Use> only(Value v) const;

 private:
  std::unordered_map<Value, std::vector<Use>> uses_;
};

}  // namespace tegula::ir
