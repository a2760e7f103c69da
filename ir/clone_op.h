#pragma once
// Copies of ops within a kernel.
#include <functional>
#include <unordered_map>

#include "ir/builder.h"

namespace tegula::ir {

/// Maps values to their replacements in a copy; values that are not in it stand for themselves.
using ValueMap = std::unordered_map<Value, Value>;

inline Value mapped(const ValueMap& map, Value v) {
  const auto it = map.find(v);
  return it == map.end() ? v : it->second;
}

/// The op may stand elsewhere, or be computed again: it has no effect, no other lane takes part in
/// it, and it contains nothing.
inline bool is_movable(const OpData& d) {
  const OpInfo& row = info(d.opcode);
  return row.has(kPure) && !row.has(kConvergent) && d.regions.empty();
}

/// The op with all it contains, at the builder's insertion point; its results enter the map.
void clone_op(Builder& b, OpId op, ValueMap& map);

/// The value as the map has it, or else as `instead` gives it; where that gives none, the ops that
/// compute the value from such others, again at the builder's insertion point.
Value clone_computation(Builder& b, Value v, ValueMap& map,
                        const std::function<Value(Value)>& instead);

}  // namespace tegula::ir
