#pragma once
// Copies of ops within a kernel.
#include <functional>
#include <unordered_map>

#include "ir/builder.h"

namespace tegula::ir {

/// Maps values to their replacements in a copy; values without an entry map to themselves.
using ValueMap = std::unordered_map<Value, Value>;

inline Value mapped(const ValueMap& map, Value v) {
  const auto it = map.find(v);
  return it == map.end() ? v : it->second;
}

/// Returns true if the op may be moved or computed again: it has no effect, involves no other lane
/// and contains no region.
inline bool is_movable(const OpData& d) {
  const OpInfo& row = info(d.opcode);
  return row.has(kPure) && !row.has(kConvergent) && d.regions.empty();
}

/// Clones the op with its regions at the builder's insertion point and adds its results to the map.
void clone_op(Builder& b, OpId op, ValueMap& map);

/// Returns the replacement of the value in the map, or else the one that `instead` returns. If
/// there is neither, clones the ops that compute the value at the builder's insertion point.
Value clone_computation(Builder& b, Value v, ValueMap& map,
                        const std::function<Value(Value)>& instead);

}  // namespace tegula::ir
