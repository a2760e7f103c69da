#include "ir/analysis/invariant_load.h"

#include "ir/access.h"

#include <algorithm>

namespace tegula::ir {

bool is_invariant_scalar_load(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  return d.opcode == Opcode::LoadView && k.type(d.results[0]).is_scalar() &&
         k.type(accessed_view(d)).view_facts().access == Access::In;
}

namespace {

/// Returns the view that all the addresses come from, if it is known.
Value view_of_pointers(const Kernel& k, Value pointers) {
  const OpId def = k[pointers].def;
  if (!def) return {};
  const OpData& d = k[def];
  using enum Opcode;
  if (d.opcode == ViewPtr) return d.operands[0];
  const bool passes_on = d.is(AddPtr, Splat, Broadcast, ExpandDims, Reshape, Permute);
  return passes_on ? view_of_pointers(k, d.operands[0]) : Value();
}

}  // namespace

Value loaded_view(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  if (d.opcode == Opcode::LoadView) return accessed_view(d);
  return d.opcode == Opcode::Load ? view_of_pointers(k, d.operands[0]) : Value();
}

bool is_invariant_load(const Kernel& k, OpId op) {
  const Value view = loaded_view(k, op);
  return view && k.type(view).view_facts().access == Access::In;
}

bool is_invariant_row_load(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  if (d.opcode != Opcode::Load || d.operands.size() < 2) return false;
  const auto shape = k.type(d.results[0]).shape();
  if (std::ranges::count_if(shape, [](std::int64_t extent) { return extent > 1; }) > 1)
    return false;
  return is_invariant_load(k, op);
}

}  // namespace tegula::ir
