#include "dsl/host_scalars.h"

#include "dsl/index_types.h"

namespace tegula::dsl {
namespace {

bool host_computes(const ir::Kernel& k, const ir::OpData& op) {
  if (op.is(ir::Opcode::Const, ir::Opcode::ViewDim, ir::Opcode::ViewStride)) return true;
  return ir::info(op.opcode).family == ir::Family::Elementwise &&
         k.type(op.results.front()).is_scalar();
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
