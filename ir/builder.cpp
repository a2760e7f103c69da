// Op creation with inferred types.
#include "ir/builder.h"

#include <fmt/format.h>

#include "tegula/error.h"

namespace tegula::ir {

AttrList attr_list(AttrInits attrs) {
  AttrList list;
  for (const AttrInit& a : attrs) list.set(a.name, a.value);
  return list;
}

Builder Builder::after(Kernel& kernel, OpId op) {
  const OpData& d = kernel[op];
  Builder b = d.next ? Builder(kernel, d.next) : Builder(kernel, d.parent);
  b.loc = d.loc;
  return b;
}

OpId Builder::place(OpId op) {
  if (before_)
    kernel_.insert_before(before_, op);
  else
    kernel_.append(region_, op);
  return op;
}

OpId Builder::create(Opcode opcode, std::span<const Value> operands, AttrList attrs) {
  const OpInfo& row = ir::info(opcode);
  std::vector<Type> types;
  types.reserve(operands.size());
  for (Value v : operands) types.push_back(kernel_.type(v));
  if (!row.infer)
    throw InternalError(fmt::format("{}: result types cannot be inferred", row.mnemonic));
  Inferred inferred = row.infer({types, attrs});
  if (!inferred.error.empty()) {
    std::string operand_types;
    for (Type t : types) operand_types += (operand_types.empty() ? "" : ", ") + t.str();
    throw InternalError(fmt::format("{}:{}: {}: {} (operands: {})", loc.file, loc.line,
                                    row.mnemonic, inferred.error, operand_types));
  }
  return create(opcode, operands, inferred.types, std::move(attrs));
}

OpId Builder::create(Opcode opcode, std::span<const Value> operands, std::span<const Type> types,
                     AttrList attrs) {
  const OpId op = kernel_.make_op(opcode, operands, types, loc);
  kernel_[op].attrs = std::move(attrs);
  return place(op);
}

Value Builder::op(Opcode opcode, std::span<const Value> operands, AttrInits attrs) {
  return kernel_[create(opcode, operands, attr_list(attrs))].results.front();
}
Value Builder::op(Opcode opcode, std::initializer_list<Value> operands, AttrInits attrs) {
  return op(opcode, std::span(operands.begin(), operands.size()), attrs);
}
Value Builder::op(Opcode opcode, std::span<const Value> operands, Type type, AttrInits attrs) {
  return kernel_[create(opcode, operands, std::span(&type, 1), attr_list(attrs))].results.front();
}
Value Builder::op(Opcode opcode, std::initializer_list<Value> operands, Type type,
                  AttrInits attrs) {
  return op(opcode, std::span(operands.begin(), operands.size()), type, attrs);
}
OpId Builder::effect(Opcode opcode, std::span<const Value> operands, AttrInits attrs) {
  return create(opcode, operands, std::span<const Type>(), attr_list(attrs));
}
OpId Builder::effect(Opcode opcode, std::initializer_list<Value> operands, AttrInits attrs) {
  return effect(opcode, std::span(operands.begin(), operands.size()), attrs);
}

Value Builder::constant(Type type, std::int64_t value) {
  return op(Opcode::Const, {}, type, {{AttrName::value, value}});
}
Value Builder::constant(Type type, double value) {
  return op(Opcode::Const, {}, type, {{AttrName::value, value}});
}

Value Builder::zero(Type type) {
  const bool is_number = is_float(type.dtype()) && !type.is_pointer();
  return is_number ? constant(type, 0.0) : constant(type, std::int64_t{0});
}

Value Builder::cast(Value v, DType to) {
  const Type type = kernel_.type(v);
  if (type.dtype() == to && !type.is_pointer()) return v;
  return op(Opcode::Cast, {v}, type.with_dtype(to));
}

OpId Builder::make_for(Value lo, Value hi, Value step, std::span<const Value> inits) {
  std::vector<Value> operands{lo, hi, step};
  operands.insert(operands.end(), inits.begin(), inits.end());
  const OpId loop = create(Opcode::For, operands);
  const RegionId body = kernel_.add_region(loop);
  kernel_.add_arg(body, kernel_.type(lo));
  for (Value v : inits) kernel_.add_arg(body, kernel_.type(v));
  return loop;
}

OpId Builder::make_while(std::span<const Value> inits) {
  std::vector<Type> types;
  for (Value v : inits) types.push_back(kernel_.type(v));
  const OpId loop = create(Opcode::While, inits, types);
  for (int i = 0; i < 2; ++i) {
    const RegionId region = kernel_.add_region(loop);
    for (Type t : types) kernel_.add_arg(region, t);
  }
  return loop;
}

OpId Builder::make_if(Value condition, std::span<const Type> results) {
  const OpId branch = create(Opcode::If, std::span(&condition, 1), results);
  kernel_.add_region(branch);
  kernel_.add_region(branch);
  return branch;
}

}  // namespace tegula::ir
