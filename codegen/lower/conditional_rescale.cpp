// Conditional rescaling: multiplication by factors that are mostly 1.
#include <array>

#include "codegen/lower/repeated_registers.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Maximum number of factors. With more, the test costs a thread as much as the multiplication.
constexpr std::size_t kMaxFactors = 8;

/// Returns the distinct registers of a vector that repeats some; empty if there are too many.
std::vector<Value> different_registers(Lowering& l, Value v) {
  const auto repeated = repeated_registers(l, v);
  if (!repeated || repeated->different.size() > kMaxFactors) return {};
  std::vector<Value> registers;
  for (const std::int64_t i : repeated->different)
    registers.push_back(l.b.op(Opcode::Regs, repeated->from, {{AttrName::indices, Ints{i}}}));
  return registers;
}

}  // namespace

/// Emits a multiplication that is skipped if all factors of the warp are 1.
Value Lowering::lower_rescaling(OpId op, Value x, Value by) {
  const auto product = [&] {
    const Type result = type(x);
    const Value operands[] = {x, by};
    return to[b.create(Opcode::Mul, operands, std::span(&result, 1), from[op].attrs)].results[0];
  };
  if (!type(x).is_vec()) return product();
  Value changes;
  for (const Value factor : different_registers(*this, by)) {
    const Value differs = b.cmp("ne", factor, b.constant(type(factor), 1.0));
    changes = changes ? b.op(Opcode::Or, {changes, differs}) : differs;
  }
  if (!changes) return product();
  const Value any = b.op(Opcode::Vote, {changes}, {{AttrName::kind, "any"}});
  const Type result = type(x);
  const OpId rescaled = branch(
      any, std::span(&result, 1), [&] { b.yield(std::array{product()}); },
      [&] { b.yield(std::array{x}); });
  return to[rescaled].results[0];
}

}  // namespace tegula::codegen
