#include "ir/uses.h"

namespace tegula::ir {

Uses::Uses(const Kernel& k) {
  walk(k, k.body(), [&](OpId op) {
    for (std::size_t i = 0; i < k[op].operands.size(); ++i)
      uses_[k[op].operands[i]].push_back({op, i});
  });
}

std::span<const Uses::Use> Uses::of(Value v) const {
  const auto it = uses_.find(v);
  return it == uses_.end() ? std::span<const Use>() : it->second;
}

std::optional<Uses::Use> Uses::only(Value v) const {
  const auto all = of(v);
  return all.size() == 1 ? std::optional(all.front()) : std::nullopt;
}

}  // namespace tegula::ir
