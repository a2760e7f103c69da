#include "dsl/host_scalars.h"

#include <algorithm>

#include "dsl/index_types.h"
#include "runtime/make_recipe.h"

namespace tegula::dsl {
namespace {

/// Returns true for integer ops: a launch recipe supports only integers.
bool host_computes(const ir::Kernel& k, const ir::OpData& op) {
  const auto is_number = [&](ir::Value v) {
    const ir::Type t = k.type(v);
    return t.is_view() ||
           (t.is_scalar() && !t.is_pointer() && is_integer(t.dtype()) && !is_bool(t.dtype()));
  };
  return runtime::is_grid_op(op.opcode) && is_number(op.results.front()) &&
         std::ranges::all_of(op.operands, is_number);
}

}  // namespace

ir::Value HostScalars::copy(ir::Value v) {
  if (const auto known = copies_.find(v); known != copies_.end()) return known->second;
  v = stated(k_, v);
  const ir::ValueData data = k_[v];
  if (!data.def) return data.region == k_.body() ? v : ir::Value();
  const ir::OpId def = data.def;
  if (!host_computes(k_, k_[def])) return {};
  std::vector<ir::Value> operands;
  for (std::size_t i = 0; i < k_[def].operands.size(); ++i) {
    const ir::Value operand = k_[def].operands[i];
    operands.push_back(k_.type(operand).is_view() ? operand : copy(operand));
    if (!operands.back()) return {};
  }
  const ir::OpId made =
      launch_.create(k_[def].opcode, operands, std::span(&data.type, 1), k_[def].attrs);
  return copies_[v] = k_[made].results[0];
}

}  // namespace tegula::dsl
