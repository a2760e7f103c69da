#include "ir/schedule/computed_from.h"

#include <algorithm>
#include <unordered_set>

#include "ir/loop.h"

namespace tegula::ir {
namespace {

class SourceSearch {
 public:
  SourceSearch(const Kernel& k, const std::function<bool(OpId)>& is_wanted)
      : k_(k), is_wanted_(is_wanted) {}

  OpId from(Value v) {
    if (!seen_.insert(v).second) return {};
    const OpId def = k_[v].def;
    if (const auto merge = merge_of(k_, v)) return from_merge(*merge);
    if (!def) return from_loop_variable(v);
    if (is_wanted_(def)) return def;
    if (touches_tile(k_, def)) return {};
    return from_all(k_[def].operands);
  }

 private:
  template <class Values>
  OpId from_all(const Values& values) {
    for (Value v : values)
      if (const OpId found = from(v)) return found;
    return {};
  }

  /// Searches the merged values, then the bounds or the condition that selects among them.
  OpId from_merge(const Merge& merge) {
    const OpId found = from_all(incoming_values(k_, merge));
    return found ? found : from_all(deciding_values(k_, merge.op));
  }

  OpId from_loop_variable(Value v) {
    const OpId owner = k_[v].region ? k_[k_[v].region].owner : OpId();
    return owner ? from_all(deciding_values(k_, owner)) : OpId();
  }

  const Kernel& k_;
  const std::function<bool(OpId)>& is_wanted_;
  std::unordered_set<Value> seen_;
};

}  // namespace

bool touches_tile(const Kernel& k, OpId op) {
  const auto is_tile = [&](Value v) { return k.type(v).is_tile(); };
  return std::ranges::any_of(k[op].operands, is_tile) ||
         std::ranges::any_of(k[op].results, is_tile);
}

OpId computed_from(const Kernel& k, Value v, const std::function<bool(OpId)>& is_wanted) {
  return SourceSearch(k, is_wanted).from(v);
}

}  // namespace tegula::ir
